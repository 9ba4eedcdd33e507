#include "src/cli/word_hints.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stepcast::cli {
namespace {

using testing::HasSubstr;

const OptionPage kHelp{.names = {"-h", "--help"}, .help = "Help"};
const OptionPage kSet{.names = {"--set"}, .type = "KEY=VALUE", .help = "Override"};
const OptionPage kScenario{.names = {"SCENARIO"}, .argument = true, .help = "File"};
const OptionPage kVary{.names = {"--vary"}, .type = "KEY=VALUES", .help = "Vary"};

const std::vector<CommandPage>& Pages() {
  static const OptionPage tokens{.names = {"--tokens"}, .type = "N", .help = "Tokens"};
  static const OptionPage length{.names = {"--sequence-length"}, .type = "N", .help = "Tokens"};
  static const OptionPage gpus{.names = {"--gpus"}, .type = "GPUS", .help = "GPUs"};
  static const OptionPage op{
      .names = {"--op"}, .type = "NAME", .offers = {"all_reduce"}, .help = "Which"};
  static const OptionPage json{.names = {"--json"}, .help = "Print JSON"};
  static const OptionPage to{.names = {"--to"}, .type = "BYTES", .help = "Last size"};
  static const OptionPage what{
      .names = {"WHAT"}, .argument = true, .words = {"models", "gpus"}, .help = "What"};
  static const std::vector<CommandPage> pages = {
      {.name = "", .about = "All", .options = {kHelp}},
      {.name = "simulate",
       .footer = "Example:\n  stepcast simulate a.yaml \\\n      --tokens 15T\n",
       .options = {kHelp, kScenario, kSet, length, gpus, json, tokens}},
      {.name = "sweep", .options = {kHelp, kScenario, kSet, kVary}},
      {.name = "plan",
       .options = {kHelp, kScenario, kSet, kVary, {.names = {"--fix"}, .type = "KEY"}}},
      {.name = "collective",
       .usage = "stepcast collective SCENARIO [OPTIONS]",
       .options = {kHelp, kScenario, kSet, op, to}},
      {.name = "list", .usage = "stepcast list WHAT [OPTIONS]", .options = {kHelp, what}},
  };
  return pages;
}

const CommandPage& Page(std::size_t index) { return Pages()[index]; }

std::string Hint(std::string_view option, std::string_view value, std::size_t page = 1) {
  return UnknownOptionHint(option, value, Page(page), Pages());
}

TEST(UnknownOptionHint, ShowsTheOptionWithItsValue) {
  EXPECT_EQ(Hint("--seq-len", "4096"), "write --sequence-length 4096");
  EXPECT_EQ(Hint("--context-length", "4096"), "write --sequence-length 4096");
  EXPECT_EQ(Hint("--sequence_length", "4096"), "write --sequence-length 4096");
  EXPECT_EQ(Hint("--num-gpus", "8"), "write --gpus '8 x h100-sxm'");
  EXPECT_EQ(Hint("--kind", "all_gather", 4), "write --op all_gather");
  EXPECT_EQ(UnknownOptionHint("--gpu", "h100", Page(1), Pages(),
                              {"simulate", "x", "--gpu", "h100", "--gpus=8"}),
            "write --gpus '8 x h100'");
  EXPECT_EQ(GpusMeant("--gpus", {"8", "h100"}), "--gpus '8 x h100'");
  EXPECT_EQ(GpusMeant("--gpus", {"8 x a100", "8 x h100"}), "");
}

TEST(UnknownOptionHint, ShowsTheSetting) {
  EXPECT_EQ(Hint("--tp", "2"), "write --set parallelism.tensor=2");
  EXPECT_EQ(Hint("--tensor", "2"), "write --set parallelism.tensor=2");
  EXPECT_EQ(Hint("--batch-size", "8"),
            "write --set training.micro_batch_size=8 (sequences of a rank in each forward pass), "
            "or --set training.global_batch_size=8 (sequences of all ranks in a step)");
  EXPECT_EQ(Hint("--bucket-cap-mb", "25"), "write --set 'data_parallel.bucket_size=25 MiB'");
  EXPECT_EQ(Hint("--lora", ""), "write --set 'training.lora={rank: 16, targets: q_proj v_proj}'");
  EXPECT_EQ(Hint("--sp", "true"), "write --set parallelism.sequence_parallel=true");
  EXPECT_EQ(Hint("--mbs", ""), "write --set training.micro_batch_size=VALUE");
  EXPECT_EQ(Hint("--precision", "bfloat16"), "write --set training.precision=bf16");
  EXPECT_EQ(Hint("--compile", "llama3.1-8b"), "write --set training.compile=true");
  EXPECT_EQ(Hint("--recompute", ""), "write --set training.activation_checkpointing=full");
  EXPECT_EQ(Hint("--bf16", ""), "write --set training.precision=bf16");
  EXPECT_EQ(Hint("--zero", "3"), "write --set data_parallel.zero_stage=3");
  EXPECT_EQ(Hint("--framework", "zero3"),
            "write --set data_parallel.framework=deepspeed --set data_parallel.zero_stage=3");
  EXPECT_EQ(Hint("--model", "gpt2", 4), "write --set model=gpt2");
  EXPECT_EQ(Hint("--gpus", "8 x h100-sxm", 4), "write --set 'cluster={gpu: h100-sxm, gpus: 8}'");
}

// A search chooses its plan among the values of --vary.
TEST(UnknownOptionHint, VariesWhereACommandTriesValues) {
  EXPECT_EQ(Hint("--tp", "2", 3), "write --vary parallelism.tensor=2");
  EXPECT_EQ(Hint("--tp", "2,4", 2), "write --vary parallelism.tensor=2,4");
  EXPECT_EQ(Hint("--tp", "2", 2), "write --set parallelism.tensor=2");
}

TEST(UnknownOptionHint, NamesTheNearestOrTheCommandThatHasIt) {
  EXPECT_EQ(Hint("--tokns", "1T"), "did you mean '--tokens'?");
  EXPECT_EQ(Hint("--vary", "a=1"), "--vary is an option of stepcast sweep, stepcast plan");
  EXPECT_EQ(Hint("--output", "json"), "write --json");
  EXPECT_EQ(Hint("--tokens", "1T", 0),
            "write the command first, for example: stepcast simulate SCENARIO --tokens");
  EXPECT_EQ(Hint("--nothing-like-it", ""), "stepcast simulate --help lists the options");
}

TEST(UnknownCommandHint, ShowsACommand) {
  const auto hint = [](std::string_view word) {
    return UnknownCommandHint(word, Page(0), Pages());
  };
  EXPECT_EQ(hint("simulte"), "did you mean 'simulate'?");
  EXPECT_EQ(hint("predict"), "write stepcast simulate");
  EXPECT_EQ(hint("llama3.1-8b"),
            "write the command first, for example: stepcast simulate llama3.1-8b");
  EXPECT_EQ(hint("Simulate"), "did you mean 'simulate'?");
  EXPECT_EQ(hint("abracadabra"), "stepcast --help lists the commands");
}

TEST(MissingHint, CompletesTheCommandOrShowsAnExample) {
  EXPECT_EQ(MissingHint(Page(1).options.back(), Page(1), {"simulate", "a b"}),
            "write stepcast simulate 'a b' --tokens 15T");
  EXPECT_EQ(MissingHint(kScenario, Page(1), {"simulate"}),
            "for example: stepcast simulate a.yaml --tokens 15T");
  EXPECT_EQ(MissingHint(Page(5).options.back(), Page(5), {"list"}),
            "the value of WHAT must be one of models, gpus; write stepcast list WHAT [OPTIONS]");
  EXPECT_EQ(OptionExample("--tokens", Page(1), "N"), "--tokens 15T");
  EXPECT_EQ(OptionExample("--gpus", Page(1), "N"), "--gpus N");
}

TEST(UnexpectedHint, GivesWordsToTheirOptions) {
  EXPECT_EQ(UnexpectedHint(Page(4), {"collective", "s.yaml", "all_reduce", "1GB"}),
            "write stepcast collective s.yaml --op all_reduce --to 1GB");
  EXPECT_EQ(UnexpectedHint(Page(4), {"collective", "all_reduce", "1GB"}),
            "write stepcast collective SCENARIO --op all_reduce --to 1GB");
  EXPECT_THAT(UnexpectedHint(Page(4), {"collective", "s.yaml", "t.yaml"}),
              HasSubstr("write stepcast collective SCENARIO [OPTIONS]"));
}

TEST(WholeNumberMeant, ReadsUnitsAndSeparators) {
  EXPECT_EQ(WholeNumberMeant("8k"), "8192");
  EXPECT_EQ(WholeNumberMeant("1M"), "1048576");
  EXPECT_EQ(WholeNumberMeant("4,096"), "4096");
  EXPECT_EQ(WholeNumberMeant("8.0"), "8");
  for (const char* text : {"", "k", "eight", "-1", "1.5", "99999999999999999999"}) {
    EXPECT_EQ(WholeNumberMeant(text), std::nullopt) << text;
  }
}

TEST(AllowedWord, IgnoresCapitalLettersHyphensAndThePlural) {
  EXPECT_EQ(AllowedWord("gpu", {"models", "gpus"}), "gpus");
  EXPECT_EQ(AllowedWord("topology", {"topologies"}), "topologies");
  EXPECT_EQ(AllowedWord("topologies", {"topology"}), "topology");
  EXPECT_EQ(AllowedWord("Interleaved-1F1B", {"interleaved_1f1b"}), "interleaved_1f1b");
  EXPECT_EQ(AllowedWord("everything", {"models"}), "");
}

}  // namespace
}  // namespace stepcast::cli
