#include "src/scenario/published_file.h"

#include <string>

#include "gtest/gtest.h"
#include "src/base/bytes.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/scenario/document.h"
#include "src/scenario/yaml_tree.h"

namespace stepcast::scenario {
namespace {

constexpr const char* kHead =
    "name: sample\n"
    "source: a paper\n"
    "machine: 2 nodes\n"
    "rule: all rows are check\n"
    "aims: {step_time: 0.04}\n"
    "scenario:\n"
    "  stepcast: 1\n"
    "  training: {sequence_length: 2048, precision: bf16}\n"
    "parts:\n"
    "  half: {scenario: {training: {precision: fp16}}}\n"
    "  borrowed: {stand_in: fsdp2 for fsdp1}\n"
    "  experts: {not_simulated: experts}\n"
    "cases:\n";

std::optional<PublishedSource> Read(const std::string& cases, Diagnostics& diagnostics) {
  const auto node = ParseDocument(kHead + cases, "sample.yaml", diagnostics);
  return node ? ReadPublished(*node, diagnostics) : std::nullopt;
}

TEST(PublishedFile, SaysWhosePeakOfMemoryIsMeasured) {
  const std::string row = "  - {name: one, split: check, quality: A, allocated: 3 GiB}\n";
  Diagnostics diagnostics;
  const auto fullest = Read(row, diagnostics);
  ASSERT_TRUE(fullest.has_value()) << Format(diagnostics);
  EXPECT_EQ(fullest->cases[0].memory_of, MemoryOf::kFullestRank);
  const std::pair<const char*, MemoryOf> words[] = {{"first_stage", MemoryOf::kFirstStage},
                                                    {"last_stage", MemoryOf::kLastStage}};
  for (const auto& [word, memory_of] : words) {
    const auto node = ParseDocument(std::string("memory_of: ") + word + "\n" + (kHead + row),
                                    "sample.yaml", diagnostics);
    const auto stage = ReadPublished(*node, diagnostics);
    ASSERT_TRUE(stage.has_value()) << Format(diagnostics);
    EXPECT_EQ(stage->cases[0].memory_of, memory_of);
  }
}

TEST(PublishedFile, LaysPartsAndTheRowOverTheSharedScenario) {
  Diagnostics diagnostics;
  const auto source = Read(
      "  - {name: one, split: fit, quality: A, parts: [half, borrowed], nodes: 2,\n"
      "     sequence_length: 512, step_time: 2 s, reserved: 3 GiB}\n",
      diagnostics);
  ASSERT_TRUE(source.has_value()) << Format(diagnostics);
  EXPECT_EQ(source->aims.step_time, 0.04);
  EXPECT_FALSE(source->aims.memory.has_value());
  ASSERT_EQ(source->cases.size(), 1u);
  const PublishedCase& row = source->cases[0];
  EXPECT_EQ(row.split, Split::kFit);
  EXPECT_EQ(row.quality, Quality::kA);
  EXPECT_EQ(row.step_time, Seconds(2));
  ASSERT_EQ(row.memory.size(), 1u);
  EXPECT_EQ(row.memory[0].kind, MemoryKind::kReserved);
  EXPECT_EQ(row.memory[0].peak, GiB(3));
  EXPECT_EQ(row.stand_ins, std::vector<std::string>{"fsdp2 for fsdp1"});
  EXPECT_EQ(CanonicalText(*row.scenario),
            R"({"stepcast": 1, "training": {"sequence_length": 512, "precision": fp16}, )"
            R"("cluster": {"nodes": 2}})");
}

TEST(PublishedFile, KeepsTheReasonWhyACaseIsNotSimulated) {
  Diagnostics diagnostics;
  const auto source = Read(
      "  - {name: one, split: check, quality: B, parts: [experts], driver: 3 GiB}\n"
      "  - {name: two, split: check, quality: B, not_simulated: batch not stated, step_time: 1 "
      "s}\n",
      diagnostics);
  ASSERT_TRUE(source.has_value()) << Format(diagnostics);
  EXPECT_EQ(source->cases[0].not_simulated, "experts");
  EXPECT_EQ(source->cases[0].memory[0].kind, MemoryKind::kDriver);
  EXPECT_EQ(source->cases[1].not_simulated, "batch not stated");
}

TEST(PublishedFile, ReportsEveryMistakeWithItsPosition) {
  Diagnostics diagnostics;
  EXPECT_FALSE(Read("  - {name: one, split: check, quality: C, step_time: 1 s}\n"
                    "  - {name: two, split: check, quality: A}\n"
                    "  - {name: two, split: check, quality: A, parts: [hlaf], step_time: 0 s}\n"
                    "  - {name: three, split: check, quality: A, step_time: 1 s, gpus: 8}\n",
                    diagnostics)
                   .has_value());
  ASSERT_EQ(diagnostics.size(), 6u) << Format(diagnostics);
  EXPECT_EQ(diagnostics[0].code, "input.unknown-word");
  EXPECT_EQ(diagnostics[0].location.line, 14);
  EXPECT_EQ(diagnostics[1].code, "published.nothing-measured");
  EXPECT_EQ(diagnostics[1].location.line, 15);
  EXPECT_EQ(diagnostics[2].code, "input.out-of-range");
  EXPECT_EQ(diagnostics[3].code, "published.unknown-part");
  EXPECT_EQ(diagnostics[3].hint, "did you mean 'half'?");
  EXPECT_EQ(diagnostics[4].code, "published.duplicate-name");
  EXPECT_EQ(diagnostics[4].location.line, 16);
  EXPECT_EQ(diagnostics[5].code, "input.unknown-key");
  EXPECT_EQ(diagnostics[5].location.line, 17);
}

}  // namespace
}  // namespace stepcast::scenario
