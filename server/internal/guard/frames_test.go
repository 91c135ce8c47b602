package guard

import (
	"bytes"
	"context"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
)

// TestFrameCounter checks that frames are counted if the bytes arrive in any parts.
func TestFrameCounter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var sent bytes.Buffer
		sent.WriteString(http2.ClientPreface)
		framer, want := http2.NewFramer(&sent, nil), rapid.IntRange(0, 20).Draw(t, "frames")
		for range want {
			data := make([]byte, rapid.SampledFrom([]int{0, 1, 300, 70_000}).Draw(t, "bytes"))
			if err := framer.WriteData(1, false, data); err != nil {
				t.Fatal(err)
			}
		}
		f, got := frameCounter{rest: len(http2Preface)}, 0
		for sent.Len() > 0 {
			got += f.count(sent.Next(rapid.IntRange(1, 40_000).Draw(t, "part")))
		}
		if got != want {
			t.Fatalf("%d frames are counted; want %d", got, want)
		}
	})
}

// sendFrames opens a call of a server and sends this many frames of one byte of its request. It returns when the
// receiver has reserved memory for them.
func sendFrames(tb testing.TB, receiver *Receiver, frames int) {
	tb.Helper()
	reading := make(chan struct{})
	client := serve(tb, receiver, func(_ any, ctx context.Context, receive func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		close(reading)
		_, _, err := receiver.Receive(ctx, receive)
		return wrapperspb.String("response"), err
	})
	connection, err := net.Dial("tcp", client.Target())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = connection.Close() })
	var headers, data bytes.Buffer
	encoder := hpack.NewEncoder(&headers)
	for _, field := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":authority", "x"}, {":path", method}, {"content-type", "application/grpc"},
	} {
		_ = encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	data.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&data, nil)
	_ = framer.WriteSettings()
	_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers.Bytes(), EndHeaders: true})
	_ = framer.WriteData(1, false, []byte{0, maxBytes >> 24, maxBytes >> 16 & 0xff, maxBytes >> 8 & 0xff, maxBytes & 0xff})
	if _, err := connection.Write(data.Bytes()); err != nil {
		tb.Fatal(err)
	}
	<-reading
	before := usedBytes(receiver.Memory)
	data.Reset()
	const atOnce = 100 // The call reads some frames before the next ones arrive, as over a network.
	for range atOnce {
		_ = framer.WriteData(1, false, []byte{0})
	}
	for range frames / atOnce {
		if _, err := connection.Write(data.Bytes()); err != nil {
			tb.Fatal(err)
		}
		time.Sleep(time.Microsecond)
	}
	wait.Until(tb, "the memory of the frames is reserved", func() bool {
		return usedBytes(receiver.Memory) >= before+frames*(frameBytes+1)
	})
}

// TestFramesOfOneByte checks that memory is reserved for each frame of a request.
func TestFramesOfOneByte(t *testing.T) {
	t.Parallel()
	receiver := newReceiver()
	sendFrames(t, receiver, 10_000)
}

// BenchmarkFrames measures the memory of a request in frames of one byte, per frame, and what is reserved.
func BenchmarkFrames(b *testing.B) {
	const frames = 500_000
	for b.Loop() {
		receiver := newReceiver()
		receiver.Memory = NewMemory(1 << 30)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		sendFrames(b, receiver, frames)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/frames, "used-B")
		b.ReportMetric(float64(usedBytes(receiver.Memory))/frames, "reserved-B")
	}
}
