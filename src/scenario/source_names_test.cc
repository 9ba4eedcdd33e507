#include "src/scenario/source_names.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/scenario/data_root.h"
#include "src/scenario/hub_models.h"
#include "src/scenario/input_contents.h"

namespace stepcast::scenario {
namespace {

TEST(FindSource, ANameIsTheDataRootsFile) {
  EXPECT_EQ(FindSource("dgx-h100", "", SourceKind::kTopology),
            DataRoot() + "/topologies/dgx-h100.yaml");
  EXPECT_EQ(FindSource("llama3.1-8b", "", SourceKind::kModel),
            DataRoot() + "/models/llama3.1-8b.yaml");
}

TEST(FindSource, ANameIsOfItsKind) {
  EXPECT_EQ(FindSource("dgx-h100", "", SourceKind::kModel), std::nullopt);
  EXPECT_EQ(FindSource("no-such-model", "", SourceKind::kModel), std::nullopt);
  EXPECT_EQ(FindSource("../models/gpt2", "", SourceKind::kModel), std::nullopt);
}

TEST(FindSource, PathsComeFirst) {
  const std::filesystem::path folder = ::testing::TempDir();
  std::ofstream(folder / "gpt2") << "kind: transformer\n";
  EXPECT_EQ(FindSource("gpt2", folder.string(), SourceKind::kModel), (folder / "gpt2").string());
}

TEST(FindSource, AModelMayBeAFolderWithAConfig) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "Qwen3-8B";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << "{}\n";
  EXPECT_EQ(FindSource(folder.string(), "", SourceKind::kModel), (folder / "config.json").string());
}

TEST(KindOfKey, FollowsTheKey) {
  EXPECT_EQ(KindOfKey("model"), SourceKind::kModel);
  EXPECT_EQ(KindOfKey("cluster.topology"), SourceKind::kTopology);
  EXPECT_EQ(KindOfKey("cluster.other_nodes[0].calibration"), SourceKind::kCalibration);
}

TEST(SameName, IgnoresCapitalLettersAndSeparators) {
  const std::vector<std::string> known = {"dgx-a100", "dgx-h100"};
  EXPECT_EQ(SameName("DGX H100", known), "dgx-h100");
  EXPECT_EQ(SameName("dgx_a100", known), "dgx-a100");
  EXPECT_EQ(SameName("dgx", known), "");
  EXPECT_EQ(FindSource("DGX-H100", "", SourceKind::kTopology),
            FindSource("dgx-h100", "", SourceKind::kTopology));
}

TEST(HintOfName, PrefersANameThatBeginsWithTheWord) {
  EXPECT_TRUE(HintOfName("qwen3-30b").starts_with("did you mean 'qwen3-30b-a3b'?"));
  EXPECT_TRUE(HintOfName("gpt5").starts_with("did you mean 'gpt2'?"));
  EXPECT_TRUE(
      HintOfName("mixtral").starts_with("did you mean 'mixtral-8x22b', or 'mixtral-8x7b'?"));
  EXPECT_TRUE(HintOfName("gpt-3").starts_with("did you mean 'gpt"));
  EXPECT_TRUE(HintOfName("70b").starts_with("did you mean '"));
  // A hint does not repeat the word.
  EXPECT_EQ(HintOfName("llama3.1-8b").find("'llama3.1-8b'"), std::string::npos);
}

TEST(HintOfName, FindsFilesInTheFolder) {
  const std::filesystem::path folder = testing::TempDir();
  std::ofstream(folder / "mine.yaml") << "stepcast: 1\n";
  const std::string near = (folder / "mine.yaml").string();
  EXPECT_EQ(HintOfName((folder / "mine.yml").string()), "did you mean '" + near + "'?");
}

TEST(ModelOfTheHub, IgnoresTheOwnerTheKindAndHyphens) {
  EXPECT_EQ(ModelOfTheHub("meta-llama/Llama-3.1-8B-Instruct"), "llama3.1-8b");
  EXPECT_EQ(ModelOfTheHub("llama3-70b"), "llama3.1-70b");
  EXPECT_EQ(ModelOfTheHub("mistralai/Mistral-7B-v0.3"), "mistral-7b-v0.3");
  EXPECT_EQ(ModelOfTheHub("qwen3-72b"), std::nullopt);
  EXPECT_EQ(ModelOfTheHub("gpt2-huge"), std::nullopt);
  EXPECT_EQ(ModelOfTheHub("mistral-7b-v0.1"), "mistral-7b");
}

TEST(ShippedNames, AreInOrder) {
  const auto names = ShippedNames(SourceKind::kTopology);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_TRUE(std::binary_search(names.begin(), names.end(), "dgx-h100"));
}

}  // namespace
}  // namespace stepcast::scenario
