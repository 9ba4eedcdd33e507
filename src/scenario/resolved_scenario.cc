#include "src/scenario/resolved_scenario.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/model/architecture.h"
#include "src/model/lora.h"
#include "src/plan/framework_style.h"
#include "src/plan/settings.h"
#include "src/topology/cluster.h"
#include "src/topology/node_type.h"

namespace stepcast::scenario {
namespace {

using Mapping = Resolved::Mapping;

Resolved Text(std::string_view text) { return {std::string(text)}; }
Resolved Integer(std::int64_t value) { return {value}; }
Resolved Boolean(bool value) { return {value}; }

Resolved VersionText(const Version& version) {
  return Text(fmt::format("{}.{}", version.major, version.minor));
}

const char* Name(Fidelity fidelity) {
  switch (fidelity) {
    case Fidelity::kAnalytic:
      return "analytic";
    case Fidelity::kFlow:
      return "flow";
    case Fidelity::kMessage:
      return "message";
  }
  return "";
}

Mapping Cluster(const Scenario& scenario, const Sources& sources) {
  Mapping cluster;
  cluster.emplace_back("topology", sources.topology);
  std::int64_t first = scenario.nodes_described;
  for (const KindOfNode& kind : scenario.other_nodes) first -= kind.nodes;
  if (!scenario.cluster->flat()) cluster.emplace_back("nodes", Integer(first));
  if (scenario.idle_devices() > 0) {
    cluster.emplace_back("devices", Integer(scenario.cluster->devices()));
  }
  cluster.emplace_back("collective_algorithm", Text(Name(scenario.algorithm)));
  cluster.emplace_back("network", Text(Name(scenario.network)));
  if (const topology::Fabric* fabric = scenario.cluster->fabric();
      fabric != nullptr && fabric->routing != topology::Routing()) {
    cluster.emplace_back("routing", Text(Name(fabric->routing.choice)));
    cluster.emplace_back("routing_seed", Integer(fabric->routing.seed));
  }
  if (!scenario.other_nodes.empty()) {
    Resolved::Sequence kinds;
    for (std::size_t i = 0; i < scenario.other_nodes.size(); ++i) {
      const Sources::OtherNodes& source = sources.other_nodes[i];
      Mapping kind;
      kind.emplace_back("topology", source.topology);
      kind.emplace_back("nodes", Integer(scenario.other_nodes[i].nodes));
      if (source.calibration) kind.emplace_back("calibration", *source.calibration);
      kinds.push_back({std::move(kind)});
    }
    cluster.emplace_back("other_nodes", Resolved{std::move(kinds)});
  }
  if (!scenario.slow_links.empty()) {
    Resolved::Sequence links;
    for (const SlowLink& slow : scenario.slow_links) {
      Mapping link;
      link.emplace_back("from", Text(slow.from));
      link.emplace_back("to", Text(slow.to));
      if (slow.bandwidth) link.emplace_back("bandwidth", Text(ExactBandwidth(*slow.bandwidth)));
      links.push_back({std::move(link)});
    }
    cluster.emplace_back("slow_links", Resolved{std::move(links)});
  }
  if (!scenario.slow_devices.empty()) {
    Resolved::Sequence devices;
    for (const SlowDevice& slow : scenario.slow_devices) {
      Mapping device;
      device.emplace_back("device", Text(slow.device));
      device.emplace_back("speed", Text(fmt::format("{}", slow.speed)));
      devices.push_back({std::move(device)});
    }
    cluster.emplace_back("slow_devices", Resolved{std::move(devices)});
  }
  return cluster;
}

// The settings with a special notation.

Resolved Written(double value) { return Text(fmt::format("{}", value)); }
Resolved Written(const std::string& value) { return Text(value); }
Resolved Written(Bytes value) { return Text(ExactBytes(value)); }
Resolved Written(const model::RecomputedModules& modules) { return Text(model::Text(modules)); }
Resolved Written(const model::Share& share) { return Text(model::Text(share)); }

Resolved Written(const std::vector<std::int64_t>& counts) {
  Resolved::Sequence sequence;
  for (const std::int64_t count : counts) sequence.push_back(Integer(count));
  return {std::move(sequence)};
}

Resolved Written(const Dispatch& dispatch) {
  return {Mapping{{"module", Text(ExactTime(dispatch.module))},
                  {"autograd", Text(ExactTime(dispatch.autograd))}}};
}

Resolved Written(const plan::DataLoading& loading) {
  Mapping mapping;
  mapping.emplace_back("time", Text(ExactTime(loading.time)));
  mapping.emplace_back("workers", Integer(loading.workers));
  if (loading.workers > 0) mapping.emplace_back("prefetch", Integer(loading.prefetch));
  mapping.emplace_back("pin_memory", Boolean(loading.pin_memory));
  if (loading.bytes) mapping.emplace_back("bytes", Text(ExactBytes(*loading.bytes)));
  return {std::move(mapping)};
}

Resolved Written(const plan::CheckpointSaving& saving) {
  return {Mapping{{"every", Integer(saving.every)},
                  {"mode", Text(plan::Name(saving.mode))},
                  {"bandwidth", Text(ExactBandwidth(saving.bandwidth))}}};
}

Resolved Written(const model::Lora& lora) {
  return {Mapping{{"rank", Integer(lora.rank)},
                  {"targets", Text(model::Text(lora.targets))},
                  {"dropout", Text(fmt::format("{}", lora.dropout))},
                  {"all_to_all", Boolean(lora.all_to_all)}}};
}

Resolved Written(const plan::Lengths& lengths) {
  Resolved::Sequence histogram;
  for (const model::SampleLength& length : lengths.histogram) {
    histogram.push_back(
        {Resolved::Sequence{Integer(length.tokens), Text(fmt::format("{}", length.weight))}});
  }
  return {Mapping{{"batching", Text(plan::Name(lengths.batching))},
                  {"histogram", Resolved{std::move(histogram)}}}};
}

Resolved Written(const plan::ReshardAfterForward& reshard) {
  if (const bool* whether = std::get_if<bool>(&reshard)) return Boolean(*whether);
  return Integer(std::get<std::int64_t>(reshard));
}

Resolved DeepSpeed(const plan::DataParallel& data_parallel) {
  Mapping mapping;
  const int stage = data_parallel.zero_stage;
  for (const auto& setting : plan::kDeepSpeedSizes) {
    if (!setting.HasEffect(stage)) continue;
    mapping.emplace_back(setting.key, Integer(data_parallel.deepspeed.*setting.value));
  }
  for (const auto& setting : plan::kDeepSpeedSwitches) {
    if (!setting.HasEffect(stage)) continue;
    mapping.emplace_back(setting.key, Boolean(data_parallel.deepspeed.*setting.value));
  }
  for (const auto& setting : plan::kDeepSpeedOffload) {
    if (!setting.HasEffect(stage)) continue;
    mapping.emplace_back(setting.key, Text(plan::Name(data_parallel.deepspeed.*setting.value)));
  }
  return {std::move(mapping)};
}

Resolved PowerSgd(const plan::PowerSgd& powersgd) {
  return {Mapping{{"matrix_approximation_rank", Integer(powersgd.rank)},
                  {"start_powerSGD_iter", Integer(powersgd.start_iteration)},
                  {"min_compression_rate", Text(fmt::format("{}", powersgd.min_compression_rate))},
                  {"use_error_feedback", Boolean(powersgd.error_feedback)},
                  {"warm_start", Boolean(powersgd.warm_start)}}};
}

// The value that is written; nothing if there is nothing to write.
using Value = std::optional<Resolved>;

// The size of buckets, or `first`: of the first one.
Value BucketSize(const Scenario& scenario, bool first) {
  const plan::DataParallel& data_parallel = scenario.plan.data_parallel;
  if (data_parallel.bucket_size) {
    const auto& size = first ? data_parallel.first_bucket_size : data_parallel.bucket_size;
    return size ? Value(Written(*size)) : std::nullopt;
  }
  if (data_parallel.zero_stage == 3) return first ? std::nullopt : Value(Text("unit"));
  // A single bucket for all gradients: its size is exactly that of all of them.
  return Written(BytesOf(scenario.model->parameter_count(), scenario.plan.training.reduce_dtype));
}

// A setting whose member of the plan has a notation.
template <auto section, auto member>
Value Of(const Scenario& scenario) {
  const auto& value = scenario.plan.*section.*member;
  if constexpr (requires { value.has_value(); }) {
    return value ? Value(Written(*value)) : std::nullopt;
  } else {
    return Written(value);
  }
}

// A setting without a row is not written, because another setting says its value:
// gradient_accumulation says global_batch_size.
struct OwnNotation {
  std::string_view key;
  Value (*value)(const Scenario& scenario);
};
constexpr auto kTraining = &plan::Plan::training;
constexpr auto kAxes = &plan::Plan::parallelism;
constexpr OwnNotation kOwnNotations[] = {
    {"recompute_modules", Of<kTraining, &plan::Training::recompute_modules>},
    {"checkpointed_blocks", Of<kTraining, &plan::Training::checkpointed_blocks>},
    {"gradient_clipping", Of<kTraining, &plan::Training::gradient_clipping>},
    {"data_loading", Of<kTraining, &plan::Training::data_loading>},
    {"checkpoint_saving", Of<kTraining, &plan::Training::checkpoint_saving>},
    {"lora", Of<kTraining, &plan::Training::lora>},
    {"lengths", Of<kTraining, &plan::Training::lengths>},
    {"frozen_dtype",
     [](const Scenario& scenario) {
       return Value(Text(Name(scenario.plan.training.lora.frozen_dtype)));
     }},
    {"dispatch",
     [](const Scenario& scenario) {
       const Dispatch& dispatch = scenario.plan.training.dispatch;
       return dispatch == Dispatch() ? std::nullopt : Value(Written(dispatch));
     }},
    {"schedule", Of<kAxes, &plan::Parallelism::schedule>},
    {"stage_layers", Of<kAxes, &plan::Parallelism::stage_layers>},
    {"imbalance",
     [](const Scenario& scenario) {
       const double imbalance = scenario.plan.mixture.imbalance;
       return imbalance == 1 ? std::nullopt : Value(Written(imbalance));
     }},
    {"capacity_factor", Of<&plan::Plan::mixture, &plan::Mixture::capacity_factor>},
    {"bucket_size", [](const Scenario& scenario) { return BucketSize(scenario, false); }},
    {"first_bucket_size", [](const Scenario& scenario) { return BucketSize(scenario, true); }},
    {"reshard_after_forward",
     Of<&plan::Plan::data_parallel, &plan::DataParallel::reshard_after_forward>},
    {"powersgd",
     [](const Scenario& scenario) {
       const plan::DataParallel& data_parallel = scenario.plan.data_parallel;
       const bool used = data_parallel.comm_hook == plan::CommHook::kPowerSgd;
       return used ? Value(PowerSgd(data_parallel.powersgd)) : std::nullopt;
     }},
    {"deepspeed",
     [](const Scenario& scenario) { return Value(DeepSpeed(scenario.plan.data_parallel)); }},
};

// The value of a row of a settings table.
template <typename Given, typename Kept>
Value ValueOf(const plan::Setting<Given, Kept>& setting, const Kept& plan,
              const Scenario& scenario) {
  if (const auto* type = std::get_if<plan::SwitchSetting<Given, Kept>>(&setting.type)) {
    return Boolean(plan.*type->kept);
  }
  if (const auto* count = std::get_if<plan::CountSetting<Given, Kept>>(&setting.type)) {
    return Integer(plan.*count->kept);
  }
  if (const auto* word = std::get_if<plan::WordSetting<Given, Kept>>(&setting.type)) {
    return Text(word->name(plan));
  }
  const auto own = std::ranges::find(kOwnNotations, setting.key, &OwnNotation::key);
  return own == std::end(kOwnNotations) ? std::nullopt : own->value(scenario);
}

// Appends the settings that the scenario has and that have an effect.
void AppendSettings(const auto& settings, const Scenario& scenario, const auto& plan,
                    Mapping& mapping) {
  const plan::DataParallel& data_parallel = scenario.plan.data_parallel;
  const auto* architecture = std::get_if<model::Architecture>(&scenario.model->source);
  for (const auto& setting : settings) {
    if (!setting.uses.HasEffect(data_parallel.framework, data_parallel.zero_stage)) continue;
    if (setting.of_architectures && architecture == nullptr) continue;
    if (setting.had_by != nullptr && !setting.had_by(*architecture)) continue;
    if (setting.shown != nullptr && !setting.shown(plan)) continue;
    auto value = ValueOf(setting, plan, scenario);
    if (value) mapping.emplace_back(setting.key, *std::move(value));
  }
}

Resolved Section(const auto& settings, const Scenario& scenario, const auto& plan) {
  Mapping mapping;
  AppendSettings(settings, scenario, plan, mapping);
  return {std::move(mapping)};
}

Resolved DataParallel(const Scenario& scenario) {
  const plan::DataParallel& data_parallel = scenario.plan.data_parallel;
  Mapping mapping{{"zero_stage", Integer(data_parallel.zero_stage)},
                  {"framework", Text(plan::Name(data_parallel.framework))}};
  AppendSettings(plan::DataParallelSettings(), scenario, data_parallel, mapping);
  return {std::move(mapping)};
}

void AppendText(std::string_view text, std::string& out) {
  out += '"';
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  out += '"';
}

void Append(const Resolved& resolved, std::string& out) {
  if (const bool* boolean = std::get_if<bool>(&resolved.value)) {
    out += *boolean ? "true" : "false";
  } else if (const auto* integer = std::get_if<std::int64_t>(&resolved.value)) {
    out += fmt::format("{}", *integer);
  } else if (const auto* text = std::get_if<std::string>(&resolved.value)) {
    AppendText(*text, out);
  } else if (const auto* sequence = std::get_if<Resolved::Sequence>(&resolved.value)) {
    out += '[';
    for (std::size_t i = 0; i < sequence->size(); ++i) {
      if (i > 0) out += ", ";
      Append((*sequence)[i], out);
    }
    out += ']';
  } else if (const auto* mapping = std::get_if<Mapping>(&resolved.value)) {
    out += '{';
    for (std::size_t i = 0; i < mapping->size(); ++i) {
      if (i > 0) out += ", ";
      AppendText((*mapping)[i].first, out);
      out += ": ";
      Append((*mapping)[i].second, out);
    }
    out += '}';
  } else {
    out += "null";
  }
}

}  // namespace

Resolved Resolve(const Scenario& scenario, const Sources& sources) {
  const plan::Plan& plan = scenario.plan;
  Mapping root;
  root.emplace_back("stepcast", Integer(1));
  root.emplace_back("name", Text(scenario.name));
  root.emplace_back("model", sources.model);
  root.emplace_back("cluster", Resolved{Cluster(scenario, sources)});
  if (sources.calibration.has_value()) root.emplace_back("calibration", *sources.calibration);
  if (scenario.calibration_of_another_gpu) {
    root.emplace_back("calibration_of_another_gpu", Boolean(true));
  }
  Mapping software{{"torch", VersionText(plan.software.torch)},
                   {"nccl", VersionText(plan.software.nccl)},
                   {"driver", VersionText(plan.software.driver)}};
  const plan::Framework framework = plan.data_parallel.framework;
  if (!plan::TraitsOf(framework).textbook) {
    software.emplace_back("expandable_segments", Boolean(plan.software.expandable_segments));
  }
  if (plan::StyleOf(framework).connections > 0 && plan.software.cuda_device_max_connections != 1) {
    software.emplace_back("cuda_device_max_connections",
                          Integer(plan.software.cuda_device_max_connections));
  }
  root.emplace_back("software", Resolved{std::move(software)});
  Mapping communication;
  if (!scenario.nccl_algo.empty())
    communication.emplace_back("nccl_algo", Text(scenario.nccl_algo));
  if (!scenario.nccl_proto.empty()) {
    communication.emplace_back("nccl_proto", Text(scenario.nccl_proto));
  }
  if (scenario.nccl_collnet) communication.emplace_back("nccl_collnet", Boolean(true));
  if (!communication.empty()) {
    root.emplace_back("communication", Resolved{std::move(communication)});
  }
  root.emplace_back("training", Section(plan::TrainingSettings(), scenario, plan.training));
  root.emplace_back("parallelism",
                    Section(plan::ParallelismSettings(), scenario, plan.parallelism));
  if (const auto* architecture = std::get_if<model::Architecture>(&scenario.model->source);
      architecture != nullptr && architecture->experts.exist()) {
    root.emplace_back("experts", Section(plan::MixtureSettings(), scenario, plan.mixture));
  }
  root.emplace_back("data_parallel", DataParallel(scenario));
  return {std::move(root)};
}

std::string ToJson(const Resolved& resolved) {
  std::string text;
  Append(resolved, text);
  return text;
}

}  // namespace stepcast::scenario
