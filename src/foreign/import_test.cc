#include "src/foreign/import.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "src/base/diagnostic.h"

namespace stepcast::foreign {
namespace {

std::string Write(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

// The value of a key of the text, without its comment.
std::string ValueOf(const Imported& imported, const std::string& key) {
  const std::string& text = imported.scenario.text;
  const std::size_t at = text.find(" " + key + ": ");
  if (at == std::string::npos) return "";
  const std::size_t begin = at + key.size() + 3;
  std::string value = text.substr(begin, text.find("  #", begin) - begin);
  value.erase(value.find_last_not_of(' ') + 1);
  return value;
}

bool Asks(const Diagnostics& mistakes, const std::string& option) {
  return std::any_of(mistakes.begin(), mistakes.end(), [&](const Diagnostic& mistake) {
    return mistake.code == "foreign.missing" && mistake.hint.find(option) != std::string::npos;
  });
}

constexpr const char* kTitan =
    "[model]\nname = \"llama3\"\nflavor = \"8B\"\n"
    "[training]\nlocal_batch_size = 2\nseq_len = 4096\n"
    "[parallelism]\ntensor_parallel_degree = 2\ndata_parallel_replicate_degree = 4\n";

TEST(Import, TorchtitanFollowsItsOwnDefaults) {
  const auto imported =
      Import({.files = {Write("a.toml", kTitan)}, .cluster = "dgx-h100", .nodes = 2});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "sequence_length"), "4096");
  EXPECT_EQ(ValueOf(*imported, "micro_batch_size"), "2");
  EXPECT_EQ(ValueOf(*imported, "sequence_parallel"), "true");
  // Every second block is checkpointed unless it is said otherwise.
  EXPECT_EQ(ValueOf(*imported, "checkpointed_blocks"), "1/2");
  // 16 GPUs, of which 2 divide layers and 4 are replicas.
  EXPECT_EQ(ValueOf(*imported, "shard_group_size"), "2");
}

TEST(Import, AsksForWhatTheFilesDoNotSay) {
  const auto imported = Import({.files = {Write("b.toml", kTitan)}});
  ASSERT_FALSE(imported.has_value());
  EXPECT_EQ(imported.error()[0].code, "foreign.value");  // shards follow from the GPUs
  const auto other =
      Import({.files = {Write("c.toml", "[model]\nflavor = \"1B\"\n[training]\nseq_len = 8\n")}});
  ASSERT_FALSE(other.has_value());
  EXPECT_TRUE(Asks(other.error(), "--cluster"));
  EXPECT_TRUE(Asks(other.error(), "--model"));
}

TEST(Import, TheCommandLineComesFirst) {
  const auto imported = Import({.files = {Write("d.toml", kTitan)},
                                .model = "llama3.1-70b",
                                .cluster = "dgx-h100",
                                .nodes = 4,
                                .set = {"training.micro_batch_size=1"}});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "micro_batch_size"), "1");
  EXPECT_NE(imported->scenario.text.find("model: llama3.1-70b "), std::string::npos);
  EXPECT_EQ(ValueOf(*imported, "shard_group_size"), "4");
}

TEST(Import, FilesOfOtherKindsAreNamed) {
  const auto imported = Import({.files = {Write("e.yaml", "tokens: {sequence_length: 8}\n")}});
  ASSERT_FALSE(imported.has_value());
  EXPECT_EQ(imported.error()[0].code, "foreign.unknown-file");
  EXPECT_NE(imported.error()[0].message.find("nanotron"), std::string::npos);
}

TEST(Import, MistakesOfAllFilesComeTogether) {
  const auto imported = Import({.files = {Write("f.toml", "a = \n"), "no-such-file.toml"}});
  ASSERT_FALSE(imported.has_value());
  EXPECT_EQ(imported.error().size(), 2u);
}

}  // namespace
}  // namespace stepcast::foreign
