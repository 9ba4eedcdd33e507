#include <string>
#include <utility>

#include "fmt/format.h"
#include "src/foreign/readers.h"
#include "src/foreign/shared_options.h"

namespace stepcast::foreign {
namespace {

bool IsAuto(const Reading& reading, std::string_view name) { return reading.Text(name) == "auto"; }

// Reads sizes and switches with equal names. "auto" means DeepSpeed's default; values that depend
// on the hidden size are computed as in the integration.
void ReadSizes(Reading& reading, std::int64_t stage) {
  struct Own {
    const char* name;
    std::int64_t first, last;  // stages at which it has an effect
  };
  constexpr Own kOwn[] = {{"reduce_bucket_size", 1, 3},
                          {"reduce_scatter", 1, 3},
                          {"round_robin_gradients", 1, 2},
                          {"stage3_prefetch_bucket_size", 3, 3},
                          {"stage3_param_persistence_threshold", 3, 3},
                          {"stage3_max_live_parameters", 3, 3},
                          {"stage3_max_reuse_distance", 3, 3},
                          {"sub_group_size", 3, 3},
                          {"zero_hpz_partition_size", 3, 3},
                          {"zero_quantized_weights", 3, 3},
                          {"zero_quantized_gradients", 3, 3}};
  for (const Own& own : kOwn) {
    const std::string option = fmt::format("zero_optimization.{}", own.name);
    const auto value = reading.Get(option);
    if (!value || stage < own.first || stage > own.last) continue;
    const std::string key = fmt::format("data_parallel.deepspeed.{}", own.name);
    if (value->text != "auto") {
      reading.Set(key, ScenarioWords(*value), option);
      continue;
    }
    // transformers/integrations/deepspeed.py: computed from the hidden size, if the model has one.
    const auto hidden = reading.hidden_size();
    const std::string_view name = own.name;
    if (!hidden) continue;
    if (name == "reduce_bucket_size") {
      reading.Set(key, *hidden * *hidden, option, "auto: hidden size squared");
    } else if (name == "stage3_prefetch_bucket_size") {
      reading.Set(key, 9 * *hidden * *hidden / 10, option, "auto: 0.9 x hidden size squared");
    } else if (name == "stage3_param_persistence_threshold") {
      reading.Set(key, 10 * *hidden, option, "auto: 10 x hidden size");
    }
  }
}

void ReadZero(Reading& reading) {
  const std::int64_t stage = reading.Integer("zero_optimization.stage").value_or(0);
  reading.Set("data_parallel.framework", "deepspeed", "zero_optimization.stage");
  reading.Set("data_parallel.zero_stage", stage, "zero_optimization.stage");
  const std::string_view overlap = "zero_optimization.overlap_comm";
  if (stage > 0 && reading.Get(overlap) && !IsAuto(reading, overlap)) {
    reading.Set("data_parallel.overlap", reading.IsOn(overlap), overlap);
  }
  ReadSizes(reading, stage);
  for (const auto& [name, first] :
       {std::pair("offload_optimizer", 1), std::pair("offload_param", 3)}) {
    const std::string option = fmt::format("zero_optimization.{}.device", name);
    const std::string device = reading.Text(option);
    if (stage < first || (device != "cpu" && device != "nvme")) continue;
    reading.Set(fmt::format("data_parallel.deepspeed.{}", name), device, option);
  }
}

void ReadNumber(Reading& reading, std::string_view option, std::string_view key) {
  const auto value = reading.Get(option);
  if (!value || value->text == "auto") return;
  if (const auto number = value->Integer()) {
    reading.Set(key, *number, option);
  } else {
    reading.Wrong(option,
                  fmt::format("{} must be an integer or auto, not {}", Quoted(option),
                              Quoted(value->Shown())),
                  fmt::format("to set the value, add --set {}=1", key));
  }
}

void ReadBatch(Reading& reading) {
  ReadNumber(reading, "train_micro_batch_size_per_gpu", "training.micro_batch_size");
  // Two of the three batch numbers determine the third; a scenario states two.
  const bool whole = reading.draft().Find("training.micro_batch_size") != nullptr &&
                     reading.draft().Find("training.global_batch_size") != nullptr;
  if (whole) return;  // stated by the program that starts DeepSpeed
  ReadNumber(reading, "gradient_accumulation_steps", "training.gradient_accumulation");
  const bool by_steps = reading.draft().Find("training.gradient_accumulation") != nullptr;
  if (!by_steps) {
    ReadNumber(reading, "train_batch_size", "training.global_batch_size");
  } else if (reading.draft().Find("training.micro_batch_size") == nullptr &&
             !IsAuto(reading, "train_batch_size") && reading.Integer("train_batch_size")) {
    const std::int64_t batch = *reading.Integer("train_batch_size");
    const std::int64_t steps = reading.draft().Degree("training.gradient_accumulation");
    const auto devices = reading.devices();
    if (devices && batch % (steps * *devices) == 0) {
      reading.Set("training.micro_batch_size", batch / (steps * *devices), "train_batch_size",
                  fmt::format("over {} GPUs", *devices));
    }
  }
  if (reading.draft().Find("training.global_batch_size") == nullptr && !by_steps &&
      reading.Stated("train_batch_size") == nullptr) {
    reading.Set("training.gradient_accumulation", "1", "gradient_accumulation_steps");
  }
}

void ReadTypes(Reading& reading) {
  const std::string_view key = "training.precision";
  for (const char* type : {"bf16", "fp16"}) {
    const std::string option = fmt::format("{}.enabled", type);
    if (reading.Stated(option) == nullptr || IsAuto(reading, option)) continue;
    if (reading.IsOn(option)) reading.Set(key, type, option);
  }
  const bool open = IsAuto(reading, "bf16.enabled") || IsAuto(reading, "fp16.enabled");
  if (!open && reading.draft().Find(key) == nullptr) reading.Set(key, "fp32", "bf16.enabled");
  const std::string gradients = reading.Text("data_types.grad_accum_dtype");
  if (gradients == "fp32" || gradients == "bf16" || gradients == "fp16") {
    reading.Set("training.gradient_dtype", gradients, "data_types.grad_accum_dtype");
  }
}

// A list of numbers, or of lists of numbers, as YAML; nothing otherwise.
std::optional<ScenarioValue> NumbersOf(const Value& list) {
  std::string text;
  for (const std::string& item : list.items) {
    if (item.find_first_not_of("0123456789.e+-[], \"") != std::string::npos) return std::nullopt;
    text += (text.empty() ? "" : ", ") + item;
  }
  return ScenarioValue::Yaml("[" + text + "]");
}

// Settings of the scenario written by `--emit`; values stated in files have priority.
void ReadOwn(Reading& reading) {
  constexpr std::string_view kAbove = "stepcast_settings.";
  for (const Setting& setting : reading.document().settings) {
    if (!setting.name.starts_with(kAbove)) continue;
    std::optional<ScenarioValue> value;
    if (setting.value.kind == Value::Kind::kText) value = setting.value.text;
    if (setting.value.kind == Value::Kind::kList) value = NumbersOf(setting.value);
    if (!value) {
      reading.Wrong(setting.name,
                    fmt::format("stepcast --emit never writes this value of {}: {}",
                                Quoted(setting.name), Quoted(setting.value.Shown())),
                    "write the file again with stepcast --emit, or remove the key");
      continue;
    }
    reading.draft().Assume(setting.name.substr(kAbove.size()), *std::move(value),
                           Origin(setting.location));
  }
}

void Rules(Reading& reading) {
  ReadZero(reading);
  reading.Apply("experts");
  ReadBatch(reading);
  ReadTypes(reading);
  reading.Apply("optimizer");
  ReadClipping(reading, "gradient_clipping");
  if (const auto disabled = reading.Get("compile.disable")) {
    reading.Set("training.compile", disabled->Boolean().value_or(true) ? "false" : "true",
                "compile.disable");
  }
  reading.Apply("axes");
  ReadOwn(reading);
}

}  // namespace

const Framework kDeepSpeed = {.name = "DeepSpeed",
                              .form = "DeepSpeed's configuration (JSON)",
                              .release = "1b88ac36",
                              .table = Program<DeepSpeedTable>,
                              .rules = Rules,
                              .adds_to_others = true};

bool IsDeepSpeed(const Document& document) {
  return document.Has("zero_optimization") || document.Has("train_micro_batch_size_per_gpu") ||
         (document.Has("train_batch_size") && !document.Has("per_device_train_batch_size"));
}

}  // namespace stepcast::foreign
