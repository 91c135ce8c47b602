package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc/audit"
	"github.com/elastalloc/elastalloc/internal/cli"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

func newAuditCommand(env cli.LookupEnv) *cobra.Command {
	var file, responseFile, output string
	var o audit.Options
	command := &cobra.Command{
		Use:   "audit -f REQUEST --answer RESPONSE",
		Short: "Verify a decision independently",
		Long: `Verify the response to an AllocateRequest with code that is independent of the
backends: that it is legal and consistent, and that no legal plan is better than
it claims. The verdict is CONFIRMED, OPEN, or REFUTED with the error or a better
plan. The exit status is 0 only for CONFIRMED.
docs/explanation/optimality-proofs.md describes the checks.`,
		Example: `  elastalloc allocate -f request.json --certificate -o json > response.json
  elastalloc audit -f request.json --answer response.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Work < 1 {
				return fmt.Errorf("--work: is %d; must be at least 1", o.Work)
			}
			if file == cli.StandardInput && responseFile == cli.StandardInput {
				return errors.New("--answer: is standard input, as is --file; must be another file")
			}
			request, err := cli.ReadRequest(cmd, file)
			if err != nil {
				return err
			}
			response := new(elastallocv1.AllocateResponse)
			if err := cli.ReadMessage(cmd, responseFile, response); err != nil {
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
				err = fmt.Errorf("the response is not confirmed: %s", report.Verdict)
			}
			return cli.Failed(err)
		},
	}
	flags := command.Flags()
	flags.VarP(cli.FileFlag{Name: &file}, "file", "f", "request in protojson, - for standard input")
	flags.Var(cli.FileFlag{Name: &responseFile}, "answer",
		"response in protojson, as printed by allocate --certificate -o json, - for standard input")
	cli.AddOutput(flags, &output)
	flags.IntVar(&o.Work, "work", audit.DefaultWork, "maximum number of elementary steps; then the verdict is OPEN")
	cli.MarkRequired(command, "file", "answer")
	cli.CompleteFiles(command, "json", "file", "answer")
	return command
}
