#include "src/foreign/fsdp_options.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "fmt/format.h"

namespace stepcast::foreign {
namespace {

std::string Upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

void ReadStrategy(Reading& reading, const FsdpOptions& options, bool second,
                  std::string_view because_of) {
  const std::string name = Upper(reading.Text(options.strategy));
  const std::string_view option =
      reading.Stated(options.strategy) != nullptr ? options.strategy : because_of;
  const bool keeps = name == "SHARD_GRAD_OP" || name == "2" || name == "HYBRID_SHARD_ZERO2" ||
                     name == "_HYBRID_SHARD_ZERO2" || name == "5";
  const bool hybrid = name.find("HYBRID") != std::string::npos || name == "4" || name == "5";
  if (name == "NO_SHARD" || name == "3") {
    reading.Set("data_parallel.framework", "ddp", option);
    reading.Set("data_parallel.zero_stage", "0", option);
    return;
  }
  const auto reshard = reading.Get(options.reshard);
  // FSDP1's sharding strategy may be given in place of the switch.
  const std::string by_switch = reshard ? Upper(reshard->text) : "";
  const bool kept = keeps || by_switch == "FALSE" || by_switch == "SHARD_GRAD_OP";
  reading.Set("data_parallel.framework", second ? "fsdp2" : "fsdp1", because_of);
  reading.Set("data_parallel.zero_stage", kept ? "2" : "3",
              kept && !keeps ? options.reshard : option);
  if (!hybrid) return;
  if (const auto gpus = reading.gpus_per_node()) {
    reading.Set("data_parallel.shard_group_size", fmt::format("{}", *gpus), option, "a node");
  }
}

void ReadSwitch(Reading& reading, std::string_view option, std::string_view key) {
  if (option.empty() || reading.Stated(option) == nullptr) return;
  reading.Set(key, reading.IsOn(option) ? "true" : "false", option);
}

}  // namespace

void ReadFsdp(Reading& reading, const FsdpOptions& options, std::string_view because_of) {
  const bool second = reading.Integer(options.version).value_or(1) == 2;
  ReadStrategy(reading, options, second, because_of);
  if (reading.IsOn(options.offload)) {
    reading.Set("data_parallel.cpu_offload", "true", options.offload);
  }
  // accelerate/accelerator.py: with mixed precision, trained parameters are converted to FP32.
  reading.draft().Assume("training.parameter_dtype", "fp32",
                         "accelerate keeps trained parameters in FP32");
  const std::string wrap = Upper(reading.Text(options.wrap));
  if (wrap == "NO_WRAP") reading.Set("data_parallel.units", "model", options.wrap);
  if (wrap == "SIZE_BASED_WRAP") reading.Omit(options.wrap, "each block is a unit");
  if (reading.IsOn(options.checkpointing)) {
    reading.Set("training.activation_checkpointing", "full", options.checkpointing);
  }
  if (second) return;
  constexpr std::string_view kPrefetch =
      "BACKWARD_PRE=pre BACKWARD_POST=post NO_PREFETCH=none 1=pre 2=post";
  if (const auto word = WordFor(kPrefetch, Upper(reading.Text(options.backward_prefetch)))) {
    reading.Set("data_parallel.backward_prefetch", std::string(*word), options.backward_prefetch);
  }
  ReadSwitch(reading, options.forward_prefetch, "data_parallel.forward_prefetch");
  ReadSwitch(reading, options.original_parameters, "data_parallel.use_orig_params");
  ReadSwitch(reading, options.limits_gathers, "data_parallel.limit_all_gathers");
}

void ReadDegrees(Reading& reading, const DegreeOptions& options) {
  const auto degree = [&reading](std::string_view option) {
    return std::max<std::int64_t>(reading.Integer(option).value_or(1), 1);
  };
  const std::int64_t shards = degree(options.shard), replicas = degree(options.replicate);
  const auto set = [&](std::string_view option, const char* key) {
    if (degree(option) > 1) reading.Set(key, fmt::format("{}", degree(option)), option);
  };
  set(options.tensor, "parallelism.tensor");
  set(options.context, "parallelism.context");
  set(options.expert, "parallelism.expert");
  // Ranks of expert parallelism are data-parallel for all other layers.
  const std::int64_t data = shards * replicas * degree(options.expert);
  if (shards > 1 || replicas > 1) {
    reading.Set("parallelism.data", fmt::format("{}", data),
                shards > 1 ? options.shard : options.replicate,
                replicas > 1 ? "shards times replicas" : "");
  }
  if (shards > 1 && replicas > 1) {
    reading.Set("data_parallel.shard_group_size", fmt::format("{}", shards), options.shard);
  }
}

}  // namespace stepcast::foreign
