#include <vector>

#include "gtest/gtest.h"
#include "src/cli/command_page.h"
#include "src/cli/commands.h"

namespace stepcast::cli {
namespace {

TEST(ManualPage, SaysWhatThePageOfHelpSays) {
  const std::vector<CommandPage> pages = {
      {.name = "", .usage = "stepcast COMMAND ...", .about = "All."},
      {.name = "calibrate",
       .usage = "stepcast calibrate [OPTIONS]",
       .about = "Measures a machine: this one.\n.Twice",
       .footer = "Example:\n  stepcast calibrate \\\n      --quick\n\nParts: all.\n\n"
                 "Exit status:\n  0  done\n",
       .options = {{.names = {"FILE"}, .argument = true, .help = "What to read"},
                   {.names = {"-h", "--help"}, .help = "Help"},
                   {.names = {"--kind"}, .type = "NAME", .words = {"a", "b"}, .help = "Which"}}},
      {.name = "calibrate import", .usage = "stepcast calibrate import", .about = "Reads. Logs"},
  };
  EXPECT_EQ(ManualPage(pages[1], pages, "1.2.3"),
            R"(.TH STEPCAST\-CALIBRATE 1 "" "stepcast 1.2.3" "stepcast"
.SH NAME
stepcast\-calibrate \- measures a machine
.SH SYNOPSIS
.B stepcast calibrate [OPTIONS]
.SH DESCRIPTION
Measures a machine: this one.
\&.Twice
.SH ARGUMENTS
.TP
.B FILE
What to read
.SH OPTIONS
.TP
.B \-h, \-\-help
Help
.TP
.B \-\-kind \fINAME\fR
Which
One of a, b.
.SH COMMANDS
.TP
.BR stepcast\-calibrate\-import (1)
Reads
.SH EXAMPLE
.EX
  stepcast calibrate \e
      \-\-quick
.EE
.PP
Parts: all.
.SH EXIT STATUS
.EX
  0  done
.EE
.SH SEE ALSO
.BR stepcast (1)
)");
}

TEST(ManualName, JoinsTheWordsOfACommand) {
  EXPECT_EQ(ManualName(""), "stepcast");
  EXPECT_EQ(ManualName("calibrate import"), "stepcast-calibrate-import");
}

}  // namespace
}  // namespace stepcast::cli
