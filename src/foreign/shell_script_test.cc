#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/foreign/shell.h"

namespace stepcast::foreign {
namespace {

using Given = std::map<std::string, std::string>;

// The words of the last command; unknown parts are "?NAME".
std::vector<std::string> Last(const std::string& script, const Given& given = {}) {
  const ShellOutcome outcome = FollowShell(ReadShell(script), given);
  std::vector<std::string> words;
  if (outcome.invocations.empty()) return words;
  for (const ShellText& text : outcome.invocations.back().words) {
    std::string word;
    for (const ShellPiece& piece : text.pieces) {
      word += piece.unknown.empty() ? piece.text : "?" + piece.unknown;
    }
    words.push_back(word);
  }
  return words;
}
using Words = std::vector<std::string>;

TEST(FollowShell, ReplacesVariables) {
  EXPECT_EQ(Last("A=1\nB=\"x $A\"\nrun $B \"$B\" ${A}2 '$A'"),
            (Words{"run", "x", "1", "x 1", "12", "$A"}));
}

TEST(FollowShell, VariablesThatDoubleEndSomewhere) {
  std::string script = "A=xxxxxxxx\n";
  for (int i = 0; i < 60; ++i) script += "A=$A$A\n";
  const Words words = Last(script + "run $A");
  ASSERT_FALSE(words.empty());
  EXPECT_EQ(words.front(), "run");
  EXPECT_NE(words.back().find('?'), std::string::npos);
}

TEST(FollowShell, ArraysAreTheirWords) {
  EXPECT_EQ(Last("ARGS=(--a 1\n --b \"2 3\")\nARGS+=(--c)\nrun \"${ARGS[@]}\""),
            (Words{"run", "--a", "1", "--b", "2 3", "--c"}));
}

TEST(FollowShell, TakesDefaults) {
  EXPECT_EQ(Last("run ${TP:-4} ${PP-2} ${X:=5} $X"), (Words{"run", "4", "2", "5", "5"}));
  EXPECT_EQ(Last("TP=8\nrun ${TP:-4}"), (Words{"run", "8"}));
  EXPECT_EQ(Last("run ${TP:-4}", {{"TP", "2"}}), (Words{"run", "2"}));
}

TEST(FollowShell, WhatTheUserSaysComesFirst) {
  EXPECT_EQ(Last("TP=8\nrun $TP", {{"TP", "2"}}), (Words{"run", "2"}));
}

TEST(FollowShell, Computes) {
  EXPECT_EQ(Last("N=4\nG=8\nrun $(($N * G))"), (Words{"run", "32"}));
  EXPECT_EQ(Last("run $(($N * 2))"), (Words{"run", "?N"}));
}

TEST(FollowShell, ExecutesNothing) {
  EXPECT_EQ(Last("A=$(hostname)\nrun $A `date`"), (Words{"run", "?A", "?$()"}));
}

TEST(FollowShell, FollowsTestsOfKnownVariables) {
  const std::string script =
      "if [ $SIZE = 8B ]; then\n L=32\nelif [ $SIZE = 70B ]; then\n L=80\nelse\n L=1\nfi\n"
      "run $L";
  EXPECT_EQ(Last("SIZE=8B\n" + script), (Words{"run", "32"}));
  EXPECT_EQ(Last("SIZE=70B\n" + script), (Words{"run", "80"}));
  EXPECT_EQ(Last("SIZE=1B\n" + script), (Words{"run", "1"}));
  EXPECT_EQ(Last("if [ 2 -gt 1 ] && [ -z \"$UNSET\" ]; then A=1; fi\nrun $A"), (Words{"run", "1"}));
}

TEST(FollowShell, ATestBeforeACommandDecidesWhetherItRuns) {
  EXPECT_EQ(Last("A=1\n[ $A = 2 ] && A=3\n[[ $A == 1 ]] || A=4\nrun $A"), (Words{"run", "1"}));
  EXPECT_EQ(Last("A=1\n[ $X = 2 ] && A=3\nrun $A"), (Words{"run", "?X"}));
}

TEST(FollowShell, AnUndecidedTestLeavesItsVariablesOpen) {
  const std::string script =
      "L=7\nM=8\nif [ $1 = 8B ]; then\n L=32\nelif [ $1 = 70B ]; then\n L=80\nfi\nrun $L $M";
  EXPECT_EQ(Last(script), (Words{"run", "?1", "8"}));
  EXPECT_EQ(Last(script, {{"1", "70B"}}), (Words{"run", "80", "8"}));
  const ShellOutcome outcome = FollowShell(ReadShell(script), {});
  EXPECT_EQ(outcome.compared.at("1"), (std::set<std::string>{"70B", "8B"}));
}

TEST(FollowShell, CommandsBehindAnUndecidedTestAreNotCertain) {
  const ShellOutcome outcome =
      FollowShell(ReadShell("if [ $R = 0 ]; then\nrun a\nfi\nfor i in 1 2; do run b; done\n"), {});
  ASSERT_EQ(outcome.invocations.size(), 2u);
  EXPECT_FALSE(outcome.invocations[0].certain);
  EXPECT_FALSE(outcome.invocations[1].certain);
}

TEST(FollowShell, PiecesKnowTheirLines) {
  const ShellOutcome outcome = FollowShell(ReadShell("\nMBS=4\n\nrun $MBS\n"), {});
  EXPECT_EQ(outcome.invocations.at(0).words.at(1).pieces.at(0).line, 2);
}

TEST(FollowShell, SlurmSetsVariablesByItsOptions) {
  EXPECT_EQ(Last("#SBATCH --nodes=16\n#SBATCH --gpus-per-node 4\nrun $SLURM_NNODES "
                 "$SLURM_GPUS_PER_NODE"),
            (Words{"run", "16", "4"}));
}

TEST(FollowShell, HeredocsHaveTheirVariablesReplaced) {
  const ShellOutcome outcome =
      FollowShell(ReadShell("L=8\ncat <<EOF > a.yaml\nx: ${L}\ny: $Z\nEOF\n"), {});
  EXPECT_EQ(outcome.invocations.at(0).documents.at(0).text, "x: 8\ny: $Z\n");
}

}  // namespace
}  // namespace stepcast::foreign
