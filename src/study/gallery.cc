#include "src/study/gallery.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/scenario/data_root.h"
#include "src/scenario/input_contents.h"
#include "src/scenario/load.h"

namespace stepcast::study {
namespace {

constexpr GalleryEntry kEntries[] = {
    {"gpt-3-175b", "GPT-3 175B", "megatron-selective", "korth_t5_175B_seqsel",
     "Korthikanti et al. 2022, arXiv 2205.05198, table 5"},
    {"bloom-176b", "BLOOM 176B", "bigscience-a100", "bigsci_949",
     "bigscience-workshop/bigscience, chronicles-prequel.md: its prototype with 128 heads"},
    {"mt-nlg-530b", "MT-NLG 530B", "megatron-selective", "korth_t5_530B_seqsel",
     "Korthikanti et al. 2022, arXiv 2205.05198, table 5"},
    {"mixtral-8x7b", "Mixtral 8x7B", "megatron-moe", "readme-mixtral-8x7b",
     "NVIDIA/Megatron-LM, megatron/core/transformer/moe/README.md"},
    {"llama-3-405b", "Llama 3 405B", "misc", "llama3-405b-16384",
     "Grattafiori et al. 2024, arXiv 2407.21783, table 4"},
    {"deepseek-v3", "DeepSeek-V3", "deepseek-v3", "deepseek-v3-2048-h800",
     "Zhao et al. 2025, arXiv 2505.09343, table 4"},
    {"qwen3-235b", "Qwen3 235B-A22B", "megatron-bridge-moe", "mbridge0025",
     "NVIDIA-NeMo/Megatron-Bridge, performance summary"},
};

}  // namespace

std::span<const GalleryEntry> GalleryEntries() { return kEntries; }

Result<GalleryRun> SimulateEntry(const GalleryEntry& entry) {
  const std::string file =
      fmt::format("{}/calibration/published/{}.yaml", scenario::DataRoot(), entry.source);
  auto source = scenario::LoadPublished(file);
  if (!source) return tl::unexpected(std::move(source.error()));
  const auto row =
      std::find_if(source->cases.begin(), source->cases.end(),
                   [&](const scenario::PublishedCase& one) { return one.name == entry.row; });
  STEPCAST_CHECK(row != source->cases.end() && row->step_time, "the gallery names measured rows");
  scenario::InputCache cache;
  auto scenario = scenario::LoadTree(row->scenario, file, cache);
  if (!scenario) return tl::unexpected(std::move(scenario.error()));
  scenario->name = entry.title;
  auto run = forecast::Simulate(*scenario);
  if (!run) return tl::unexpected(std::move(run.error()));
  return GalleryRun{std::move(*row), *std::move(scenario), *std::move(run)};
}

}  // namespace stepcast::study
