#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>

#include "fmt/format.h"
#include "src/foreign/readers.h"
#include "src/foreign/shared_options.h"

namespace stepcast::foreign {
namespace {

void ReadModel(Reading& reading) {
  if (reading.draft().Find("model") != nullptr) return;
  const std::filesystem::path file(reading.document().file);
  reading.draft().Assume("model.name", file.stem().string(), "the file's name");
  reading.Apply("model");
  const std::string_view multiple = "model.make_vocab_size_divisible_by";
  const std::int64_t unit =
      std::clamp<std::int64_t>(reading.Integer(multiple).value_or(1), 1, 1'000'000) *
      reading.draft().Degree("parallelism.tensor");
  const auto words = reading.draft().Integer("model.vocab_size");
  if (words && *words % unit != 0) reading.Omit(multiple, "the vocabulary is not padded");
}

void Rules(Reading& reading) {
  ReadModel(reading);
  reading.Apply("precision");
  reading.Apply("axes");
  reading.Apply("optimizer");
  ReadClipping(reading, "optimizer.clip_grad");
  reading.Apply("sharding");
  const std::string_view bucket = "model.ddp_bucket_cap_mb";
  if (const auto size = reading.Integer(bucket);
      size && reading.Integer("optimizer.zero_stage").value_or(0) == 0) {
    reading.Set("data_parallel.bucket_size", fmt::format("{} MiB", *size), bucket);
  }
  reading.Apply("recomputation");
}

}  // namespace

const Framework kNanotron = {.name = "nanotron",
                             .form = "nanotron's configuration (YAML)",
                             .release = "09fd0ece7579",
                             .table = Program<NanotronTable>,
                             .rules = Rules};

bool IsNanotron(const Document& document) {
  return document.Has("tokens") && document.Has("tokens.micro_batch_size") &&
         document.Has("model.model_config");
}

}  // namespace stepcast::foreign
