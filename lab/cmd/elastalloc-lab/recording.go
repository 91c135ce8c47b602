package main

import (
	"bytes"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/recorded"
	"github.com/elastalloc/elastalloc/internal/recording"
)

func newRecordingCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "recording",
		Short: "Show calls of a recording",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var flags recorded.Flags
	show := &cobra.Command{
		Use:   "show --recording DIR",
		Short: "Print a recorded call",
		Long: `Print the last recorded call at or before a time as one JSON object: time,
method, caller, request_id, request, and response or status.`,
		Example: `  elastalloc-lab recording show --recording recordings --at 14:05
  elastalloc-lab recording show --recording recordings | jq .request`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			entry, err := flags.Last(cmd, "call", func(*recording.Entry) bool { return true })
			if err != nil {
				return err
			}
			text, err := entry.JSON()
			if err != nil {
				return cli.Failed(err)
			}
			var indented bytes.Buffer
			if err := json.Indent(&indented, text, "", "  "); err != nil {
				return cli.Failed(err)
			}
			_, err = indented.WriteTo(cmd.OutOrStdout())
			return cli.Failed(err)
		},
	}
	flags.Add(show.Flags())
	cli.MarkRequired(show, "recording")
	command.AddCommand(show)
	return command
}
