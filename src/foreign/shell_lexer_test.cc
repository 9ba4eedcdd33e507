#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/foreign/shell.h"

namespace stepcast::foreign {
namespace {

std::vector<std::string> Words(const ShellCommand& command) {
  std::vector<std::string> words;
  for (const ShellWord& word : command.words) words.push_back(word.raw);
  return words;
}
using Raw = std::vector<std::string>;

TEST(ReadShell, SplitsCommandsAndKeepsQuotes) {
  const ShellScript script = ReadShell(
      "A=1; echo \"x; y\" 'z # w' # a comment\n"
      "torchrun --nnodes 2 \\\n  train.py && done\n");
  ASSERT_EQ(script.commands.size(), 4u);
  EXPECT_EQ(Words(script.commands[0]), (Raw{"A=1"}));
  EXPECT_EQ(Words(script.commands[1]), (Raw{"echo", "\"x; y\"", "'z # w'"}));
  EXPECT_EQ(Words(script.commands[2]), (Raw{"torchrun", "--nnodes", "2", "train.py"}));
  EXPECT_EQ(script.commands[2].words[3].line, 3);
  EXPECT_EQ(script.commands[2].joint, ShellJoint::kAnd);
}

TEST(ReadShell, AnArrayIsOneWord) {
  const ShellScript script = ReadShell("ARGS=(\n  --a 1 # why (not)\n  --b \"2 )\"\n)\nrun\n");
  ASSERT_EQ(script.commands.size(), 2u);
  ASSERT_EQ(script.commands[0].words.size(), 1u);
  EXPECT_EQ(script.commands[0].words[0].raw, "ARGS=(\n  --a 1 \n  --b \"2 )\"\n)");
  EXPECT_EQ(script.commands[1].words[0].line, 5);
}

TEST(ReadShell, HeredocsBelongToTheirCommand) {
  const ShellScript script =
      ReadShell("cat <<'EOF' > a.yaml\nx: $A\nEOF\ncat > b <<END\ny: 1\nEND\n");
  ASSERT_EQ(script.commands.size(), 2u);
  ASSERT_EQ(script.commands[0].documents.size(), 1u);
  EXPECT_EQ(script.commands[0].documents[0].text, "x: $A\n");
  EXPECT_EQ(script.commands[0].documents[0].line, 2);
  EXPECT_FALSE(script.commands[0].documents[0].expands);
  EXPECT_TRUE(script.commands[1].documents.at(0).expands);
}

TEST(ReadShell, ReadsOptionsOfSlurm) {
  const ShellScript script = ReadShell("#!/bin/bash\n#SBATCH --nodes=16 -J x\n");
  ASSERT_EQ(script.batch_options.size(), 3u);
  EXPECT_EQ(script.batch_options[0].raw, "--nodes=16");
  EXPECT_EQ(script.batch_options[0].line, 2);
}

TEST(ReadShell, TakesAnyText) {
  std::string nested;
  for (int i = 0; i < 100'000; ++i) nested += "\"$(";
  EXPECT_NO_FATAL_FAILURE(ReadShell(nested));
  EXPECT_NO_FATAL_FAILURE(ReadShell("'"));
  EXPECT_NO_FATAL_FAILURE(ReadShell("cat <<EOF\n"));
  EXPECT_NO_FATAL_FAILURE(ReadShell("A=("));
  EXPECT_NO_FATAL_FAILURE(ReadShell("\\"));
}

}  // namespace
}  // namespace stepcast::foreign
