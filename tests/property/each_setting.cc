#include "tests/property/each_setting.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/scenario/input_schemas.h"
#include "src/scenario/schema.h"

namespace stepcast {
namespace {

using scenario::Schema;
using scenario::SchemaValue;
using Kind = SchemaValue::Kind;

const std::map<std::string, std::vector<std::string>> kTexts = {
    {"training.checkpointed_blocks", {"1/2", "first 1"}},
    {"training.recompute_modules", {"core_attn", "mlp", "layernorm", "moe_act", "mlp layernorm"}},
    {"training.gradient_clipping", {"1.0"}},
    {"training.lora.targets", {"q_proj v_proj", "linear_qkv linear_proj"}},
    {"parallelism.schedule",
     {"gpipe", "interleaved_1f1b", "breadth_first", "zb_h1", "zb_h2", "zb_v", "v_half", "v_min",
      "dualpipe_v"}},
    {"parallelism.stage_layers", {"Et|tttttttL", "[3, 5]"}},
    {"communication.nccl_algo", {"Ring", "Tree"}},
    {"communication.nccl_proto", {"LL", "LL128", "Simple"}},
    {"cluster.slow_links.from", {"node0/nic0"}},
    {"cluster.slow_links.to", {"leaf0"}},
    {"cluster.slow_devices.device", {"node0/gpu0"}},
    {"training.lengths.histogram", {"[[16, 70], [32, 30]]"}},
};

std::vector<std::string> NumbersIn(const scenario::IntegerRange& range) {
  std::vector<std::string> numbers;
  for (const std::int64_t number : {range.least, range.least + 1, std::int64_t{2}, std::int64_t{4},
                                    std::int64_t{16}, range.example}) {
    const std::string text = std::to_string(number);
    if (number < range.least || number > range.most) continue;
    if (std::find(numbers.begin(), numbers.end(), text) == numbers.end()) numbers.push_back(text);
  }
  return numbers;
}

std::vector<std::string> DecimalsIn(const scenario::DecimalRange& range) {
  std::vector<std::string> numbers;
  for (const double number : {0.25, 1.0, 1.5, 4.0}) {
    if (number >= range.least && number <= range.most) numbers.push_back(fmt::format("{}", number));
  }
  return numbers;
}

// Valid scalars and sequences for the key.
std::vector<std::string> ValuesOf(const Schema& schema, const std::string& key);

std::vector<std::string> ValuesOf(const SchemaValue& value) {
  switch (value.kind) {
    case Kind::kText:
      break;
    case Kind::kWord:
      return value.words;
    case Kind::kInteger:
      return NumbersIn(value.integers);
    case Kind::kDecimal:
      return DecimalsIn(value.decimals);
    case Kind::kBoolean:
      return {"true", "false"};
    case Kind::kVersion:
      return {"\"2.0\"", "\"2.10\"", "\"2.14\"", "\"2.20\"", "\"470.0\"", "\"550.54\""};
    case Kind::kBytes:
      return {"0 B", "1 KiB", "64 MiB"};
    case Kind::kBandwidth:
      return {"1 GB/s"};
    case Kind::kTime:
      return {"300 ms", "1 us"};
    case Kind::kFlopRate:
      return {"1 TFLOPS"};
    case Kind::kSequence:
    case Kind::kMapping:
      break;
  }
  return {};
}

bool IsQuantity(const Schema& schema) {
  return std::any_of(schema.values().begin(), schema.values().end(), [](const SchemaValue& value) {
    switch (value.kind) {
      case Kind::kInteger:
      case Kind::kDecimal:
      case Kind::kVersion:
      case Kind::kBytes:
      case Kind::kBandwidth:
      case Kind::kTime:
      case Kind::kFlopRate:
        return true;
      case Kind::kText:
      case Kind::kWord:
      case Kind::kBoolean:
      case Kind::kSequence:
      case Kind::kMapping:
        return false;
    }
    return false;
  });
}

std::string Required(const Schema& mapping, const std::string& path) {
  std::vector<std::string> keys;
  for (const Schema::Key& key : mapping.keys()) {
    if (!mapping.Requires(key)) continue;
    const auto values = ValuesOf(*key.value, path + "." + key.name);
    keys.push_back(fmt::format("{}: {}", key.name, values.empty() ? "?" : values.front()));
  }
  return fmt::format("{{{}}}", fmt::join(keys, ", "));
}

std::vector<std::string> ValuesOf(const Schema& schema, const std::string& key) {
  if (const auto known = kTexts.find(key); known != kTexts.end()) return known->second;
  std::vector<std::string> values;
  for (const SchemaValue& value : schema.values()) {
    if (value.kind == Kind::kSequence && schema.items() != nullptr) {
      if (!schema.items()->keys().empty()) {
        values.push_back(fmt::format("[{}]", Required(*schema.items(), key)));
      }
      for (const std::string& item : ValuesOf(*schema.items(), key)) {
        values.push_back(fmt::format("[{}]", item));
      }
      continue;
    }
    for (std::string& text : ValuesOf(value)) values.push_back(std::move(text));
  }
  return values;
}

void Add(const Schema& mapping, const std::string& path, const std::vector<std::string>& beside,
         std::vector<TriedSetting>& settings) {
  for (const Schema::Key& key : mapping.keys()) {
    const std::string own = path.empty() ? key.name : path + "." + key.name;
    std::vector<std::string> values = ValuesOf(*key.value, own);
    std::vector<std::string> with = beside;
    const bool holds_keys = !key.value->keys().empty();
    if (holds_keys && key.value->others().empty()) {
      const std::string required = Required(*key.value, own);
      if (required != "{}" && !path.empty()) {
        values.push_back(required);
        with.push_back(fmt::format("{}={}", own, required));
      }
    }
    settings.push_back({beside, own, values, IsQuantity(*key.value)});
    if (holds_keys && key.value->others().empty()) Add(*key.value, own, with, settings);
  }
}

}  // namespace

std::vector<TriedSetting> EachSetting() {
  const scenario::InputSchema input = scenario::InputSchemaOf("scenario");
  std::vector<TriedSetting> settings;
  Add(input.schema, "", {}, settings);
  return settings;
}

}  // namespace stepcast
