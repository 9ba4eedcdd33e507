#include "gtest/gtest.h"
#include "src/foreign/shell.h"

namespace stepcast::foreign {
namespace {

TEST(ShellSettings, AreTheOptionsOfTheTrainingCommand) {
  const ShellDocuments read = ParseShellSettings(
      "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
      "ARGS=(\n  --seq-length 4096\n  --bf16\n  --lr=3e-4\n  --split 90 5 5\n)\n"
      "mkdir -p out\n"
      "torchrun --nnodes 2 pretrain_gpt.py \"${ARGS[@]}\" --eval-iters -1\n",
      "a.sh", {});
  const Document& command = read.command;
  EXPECT_EQ(command.Find("env.CUDA_DEVICE_MAX_CONNECTIONS")->value.text, "1");
  EXPECT_EQ(command.Find("launcher.nnodes")->value.text, "2");
  EXPECT_EQ(command.Find("seq-length")->value.text, "4096");
  EXPECT_EQ(command.Find("seq-length")->location.line, 3);
  EXPECT_EQ(command.Find("bf16")->value.text, "true");
  EXPECT_EQ(command.Find("lr")->value.text, "3e-4");
  EXPECT_EQ(command.Find("split")->value.items, (std::vector<std::string>{"90", "5", "5"}));
  EXPECT_EQ(command.Find("eval-iters")->value.text, "-1");
}

TEST(ShellSettings, ACommandMayStandInAText) {
  const ShellDocuments read = ParseShellSettings(
      "CMD=\"torchrun train.py \\\n  --seq-length 4096 \\\n  --bf16\"\nsrun bash -c \"X=1 $CMD\"\n",
      "a.sh", {});
  EXPECT_EQ(read.command.Find("seq-length")->value.text, "4096");
  EXPECT_EQ(read.command.Find("seq-length")->location.line, 2);
}

TEST(ShellSettings, ArgumentsMayStandAlone) {
  const ShellDocuments read = ParseShellSettings("--num-layers 32\n--bf16\n", "megatron.args", {});
  EXPECT_EQ(read.command.Find("num-layers")->value.text, "32");
  EXPECT_EQ(read.command.Find("bf16")->location.line, 2);
}

TEST(ShellSettings, ValuesThatAreNotKnownNameTheirVariable) {
  const ShellDocuments read = ParseShellSettings("python train.py --tp $TP --x\n", "a.sh", {});
  EXPECT_EQ(read.command.Find("tp")->value.unknown, (std::vector<std::string>{"TP"}));
  EXPECT_EQ(read.command.Find("tp")->value.Integer(), std::nullopt);
}

TEST(ShellSettings, AWordOfWhichNothingIsKnownMayBeMoreOptions) {
  const ShellDocuments read =
      ParseShellSettings("[ $A = x ] && B=1\npython train.py --tp 2 $MORE\n", "a.sh", {});
  EXPECT_EQ(read.command.Find("tp")->value.Integer(), 2);
  ASSERT_EQ(read.open.size(), 1u);
  EXPECT_EQ(read.open[0].first, "MORE");
}

TEST(ShellSettings, ValuesThatTheUserStatesAreAtTheOption) {
  const ShellDocuments read =
      ParseShellSettings("python train.py --tp $TP --x\n", "a.sh", {{"TP", "4"}});
  EXPECT_EQ(read.command.Find("tp")->location.file, "--variable TP");
}

TEST(ShellSettings, EmbeddedFilesKeepTheirLines) {
  const ShellDocuments read =
      ParseShellSettings("cat <<EOF > ds.json\n{\"a\": 1}\nEOF\n", "a.sh", {});
  ASSERT_EQ(read.embedded.size(), 1u);
  EXPECT_EQ(read.embedded[0].first, "{\"a\": 1}\n");
  EXPECT_EQ(read.embedded[0].second, 2);
}

TEST(Spelled, ChangesOptionsAndNotVariables) {
  const Document document = Spelled(
      {"a", {{"seq_length", Value::Text("1")}, {"env.NCCL_ALGO", Value::Text("ring")}}}, '-');
  EXPECT_TRUE(document.Has("seq-length"));
  EXPECT_TRUE(document.Has("env.NCCL_ALGO"));
}

}  // namespace
}  // namespace stepcast::foreign
