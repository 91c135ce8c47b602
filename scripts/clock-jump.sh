#!/usr/bin/env bash
# Boots a Linux in qemu, starts a server there and sets the machine's clock far forward
# and far back while it decides (TestClockJumps in cmd/elastalloc/faults). It prints a
# table of what was seen. The clock of this machine is not touched.
#
# It takes Debian or Ubuntu on amd64. The packages of a kernel and of busybox are
# unpacked into .tools/clock-jump; only qemu, where it is missing, is installed, as root
# or through sudo.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
cache=$root/.tools/clock-jump
limit=600 # seconds that the virtual machine may take

name=clock-jump
. scripts/packages.sh

[ "$(uname -m)" = x86_64 ] || fail 'this takes a machine of the architecture amd64'
command -v apt-get >/dev/null || fail 'this takes Debian or Ubuntu'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

command -v qemu-system-x86_64 >/dev/null || install_packages qemu-system-x86

# The kernel and busybox, whose packages are unpacked and not installed.
kernel() { find "$cache" -name 'vmlinuz-*' 2>/dev/null | sort | tail -1; }
if [ -z "$(kernel)" ] || [ ! -x "$cache/bin/busybox" ]; then
  say 'fetching a kernel and busybox'
  mkdir -p "$work/lists/partial" "$cache"
  options=(-qq -o "Dir::State::Lists=$work/lists" -o Acquire::Languages=none -o "APT::Sandbox::User=$(id -un)")
  apt-get "${options[@]}" update || say 'some lists could not be updated'
  # The name without a version is a package that depends on the newest kernel.
  for flavour in linux-image-cloud-amd64 linux-image-virtual; do
    image=$(apt-cache "${options[@]}" depends "$flavour" 2>/dev/null |
      sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -1)
    [ -z "$image" ] || break
  done
  [ -n "$image" ] || fail 'found no package of a kernel for virtual machines'
  (cd "$work" && apt-get "${options[@]}" download "$image" busybox-static) || fail 'the packages cannot be downloaded'
  for package in "$work"/*.deb; do
    dpkg -x "$package" "$work/unpacked"
  done
  mkdir -p "$cache/bin"
  install -m 0755 "$(find "$work/unpacked" -path '*bin/busybox' -type f | head -1)" "$cache/bin/busybox"
  install -m 0644 "$work"/unpacked/boot/vmlinuz-* "$cache/"
fi

say 'building the server and its tests'
system=$work/system
mkdir -p "$system"/{bin,proc,sys,dev,tmp}
CGO_ENABLED=0 go build -o "$system/bin/elastalloc" ./cmd/elastalloc
CGO_ENABLED=0 go test -c -o "$system/bin/faults.test" ./cmd/elastalloc/faults
cp "$cache/bin/busybox" "$system/bin/busybox"
cat >"$system/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
ifconfig lo 127.0.0.1 up
echo "clock-jump: $(uname -sr), $(date -u), $(elastalloc version)"
cd /tmp
ELASTALLOC_TESTS=faults ELASTALLOC_FAULTS_SET_CLOCK=1 ELASTALLOC_FAULTS_BINARY=/bin/elastalloc \
  faults.test -test.run '^TestClockJumps$' -test.v -test.timeout 300s
echo "clock-jump: the test ended with status $?"
poweroff -f
INIT
chmod 0755 "$system/init"
(cd "$system" && find . | "$cache/bin/busybox" cpio -o -H newc 2>/dev/null) | gzip -1 >"$work/initramfs"

# The processor is emulated: slower than by KVM, but the same on every machine, and on
# virtual ones too.
say "booting $(basename "$(kernel)")"
timeout "$limit" qemu-system-x86_64 -accel tcg -m 768 -smp 2 -nic none -nographic -no-reboot \
  -kernel "$(kernel)" -initrd "$work/initramfs" -append 'console=ttyS0 quiet panic=-1' </dev/null |
  tr -d '\r' | tee "$work/console" | sed -n 's/^.*clock-jump: /clock-jump: /; /^clock-jump: /,$p'
grep -q 'clock-jump: the test ended with status 0' "$work/console" || fail 'the test failed'
