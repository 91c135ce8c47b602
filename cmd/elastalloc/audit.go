package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc/audit"
	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

func newAuditCommand(env cli.LookupEnv) *cobra.Command {
	var file, answered, output string
	var o audit.Options
	command := &cobra.Command{
		Use:   "audit -f REQUEST --answer ANSWER",
		Short: "Check a decision independently",
		Long: `Check an answer to an AllocateRequest by code that shares nothing with what
makes decisions: whether it is legal, adds up, and whether any legal plan is
better than it claims. The verdict is CONFIRMED, REFUTED with what is wrong or
better, or OPEN; the exit status is 0 for CONFIRMED only.
docs/explanation/optimality-proofs.md says what is checked and how.`,
		Example: `  elastalloc allocate -f request.json --certificate -o json > answer.json
  elastalloc audit -f request.json --answer answer.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Work < 1 {
				return fmt.Errorf("--work is %d; want at least 1", o.Work)
			}
			if file == cli.StandardInput && answered == cli.StandardInput {
				return errors.New("--file and --answer are both standard input")
			}
			request, err := cli.ReadRequest(cmd, file)
			if err != nil {
				return err
			}
			response := new(elastallocv1.AllocateResponse)
			if err := cli.ReadMessage(cmd, answered, response); err != nil {
				return err
			}
			report := audit.Check(cmd.Context(), request, response, o)
			if cmd.Context().Err() != nil {
				return cli.ErrInterrupted
			}
			out := cmd.OutOrStdout()
			if output == cli.OutputJSON {
				err = json.NewEncoder(out).Encode(report)
			} else {
				_, err = fmt.Fprintln(out, cli.ScreenFor(out, env).Wrap(fmt.Sprintf("%s: %s", report.Verdict, report.Reason)))
			}
			if err == nil && report.Verdict != audit.Confirmed {
				err = fmt.Errorf("the answer is not confirmed: %s", report.Verdict)
			}
			return cli.Failed(err)
		},
	}
	flags := command.Flags()
	flags.VarP(cli.FileFlag{Name: &file}, "file", "f", "request in protojson, - for standard input")
	flags.Var(cli.FileFlag{Name: &answered}, "answer", "its answer in protojson, as allocate --certificate -o json prints it, - for standard input")
	cli.AddOutput(flags, &output)
	flags.IntVar(&o.Work, "work", audit.DefaultWork, "elementary steps after which the verdict is OPEN")
	cli.MarkRequired(command, "file", "answer")
	cli.CompleteFiles(command, "json", "file", "answer")
	return command
}
