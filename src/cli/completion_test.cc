#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/cli/commands.h"

namespace stepcast::cli {
namespace {

using testing::HasSubstr;

const std::vector<CommandPage>& Pages() {
  static const OptionPage json{.names = {"--json"}, .help = "Print JSON"};
  static const OptionPage output{.names = {"--output"}, .type = "FILE", .help = "Write FILE"};
  static const OptionPage network{
      .names = {"--network"}, .type = "NAME", .words = {"flow", "message"}, .help = "How"};
  static const OptionPage target{
      .names = {"--target"}, .type = "NAME", .offers = {"gpus", "cost"}, .help = "Which"};
  static const OptionPage help{.names = {"-h", "--help"}, .help = "Help"};
  static const OptionPage model{.names = {"--model"}, .type = "MODEL", .help = "Of it"};
  static const OptionPage set{.names = {"--set"}, .type = "KEY=VALUE", .help = "Override"};
  static const OptionPage log{.names = {"LOG"}, .argument = true};
  static const std::vector<CommandPage> pages = {
      {.name = "", .about = "All", .options = {help}},
      {.name = "simulate",
       .about = "Forecasts a step: long",
       .options = {help, network, json, model, set, target}},
      {.name = "calibrate", .about = "Measures", .options = {help, output}},
      {.name = "calibrate import", .about = "Reads\nlogs. More", .options = {help, log}},
  };
  return pages;
}

std::string Of(const std::vector<std::string>& words) {
  static const std::map<std::string, std::vector<std::string>> names = {
      {"MODEL", {"gpt2", "llama2-7b"}}, {"KEY=VALUE", {"a.b=", "a.c=", "d="}}};
  return Completions(Pages(), names, words);
}

TEST(Completions, OffersCommandsThatBeginSo) {
  EXPECT_EQ(Of({""}), "simulate\tForecasts a step\ncalibrate\tMeasures\n");
  EXPECT_EQ(Of({"sim"}), "simulate\tForecasts a step\n");
  EXPECT_EQ(Of({"calibrate", ""}), "import\tReads logs\n");
  EXPECT_EQ(Of({"nothing"}), "");
  EXPECT_EQ(Of({}), "");
}

TEST(Completions, OffersOptionsOfTheCommandAlone) {
  EXPECT_EQ(Of({"--h"}), "--help\tHelp\n");
  EXPECT_EQ(Of({"simulate", "--"}),
            "--help\tHelp\n--network\tHow\n--json\tPrint JSON\n--model\tOf it\n--set\tOverride\n"
            "--target\tWhich\n");
  EXPECT_EQ(Of({"calibrate", "import", "-"}), "--help\tHelp\n");
}

TEST(Completions, OffersTheWordsThatAValueMayBe) {
  EXPECT_EQ(Of({"simulate", "--network", ""}), "flow\nmessage\n");
  EXPECT_EQ(Of({"simulate", "x.yaml", "--network", "m"}), "message\n");
  EXPECT_EQ(Of({"simulate", "--network=f"}), "--network=flow\n");
  EXPECT_EQ(Of({"simulate", "--target", "c"}), "cost\n");
  // A flag takes no value.
  EXPECT_EQ(Of({"simulate", "--json", "--n"}), "--network\tHow\n");
}

TEST(Completions, LeavesFilesToTheShell) {
  EXPECT_EQ(Of({"calibrate", "--output", "a"}), ":files\n");
  EXPECT_EQ(Of({"calibrate", "import", ""}), ":files\n");
  EXPECT_EQ(Of({"calibrate", "import", "a.log", ""}), ":files\n");
}

TEST(Completions, OffersNamesThatComeAlongBesideFiles) {
  EXPECT_EQ(Of({"simulate", "--model", "l"}), "llama2-7b\n:files\n");
  EXPECT_EQ(Of({"simulate", "--model=g"}), "--model=gpt2\n:files\n");
}

TEST(Completions, OffersKeysAndLeavesTheirValuesToTheShell) {
  EXPECT_EQ(Of({"simulate", "--set", "a."}), "a.b=\na.c=\n");
  EXPECT_EQ(Of({"simulate", "--set=d"}), "--set=d=\n");
  EXPECT_EQ(Of({"simulate", "--set", "a.b=f"}), ":files\n");
}

TEST(CompletionScript, EachShellHasOne) {
  for (const std::string& shell : CompletionShells()) {
    EXPECT_THAT(CompletionScript(shell), HasSubstr(shell));
    EXPECT_THAT(CompletionScript(shell), HasSubstr(kFilesToo));
  }
}

}  // namespace
}  // namespace stepcast::cli
