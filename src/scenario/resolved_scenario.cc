#include "src/scenario/resolved_scenario.h"

#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "src/base/check.h"
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

Resolved DataLoading(const plan::DataLoading& loading) {
  Mapping mapping;
  mapping.emplace_back("time", Text(ExactTime(loading.time)));
  mapping.emplace_back("workers", Integer(loading.workers));
  if (loading.workers > 0) mapping.emplace_back("prefetch", Integer(loading.prefetch));
  mapping.emplace_back("pin_memory", Boolean(loading.pin_memory));
  if (loading.bytes) mapping.emplace_back("bytes", Text(ExactBytes(*loading.bytes)));
  return {std::move(mapping)};
}

Resolved CheckpointSaving(const plan::CheckpointSaving& saving) {
  return {Mapping{{"every", Integer(saving.every)},
                  {"mode", Text(plan::Name(saving.mode))},
                  {"bandwidth", Text(ExactBandwidth(saving.bandwidth))}}};
}

Resolved Lora(const model::Lora& lora) {
  return {Mapping{{"rank", Integer(lora.rank)},
                  {"targets", Text(model::Text(lora.targets))},
                  {"dropout", Text(fmt::format("{}", lora.dropout))},
                  {"all_to_all", Boolean(lora.all_to_all)}}};
}

Resolved Lengths(const plan::Lengths& lengths) {
  Resolved::Sequence histogram;
  for (const model::SampleLength& length : lengths.histogram) {
    histogram.push_back(
        {Resolved::Sequence{Integer(length.tokens), Text(fmt::format("{}", length.weight))}});
  }
  return {Mapping{{"batching", Text(plan::Name(lengths.batching))},
                  {"histogram", Resolved{std::move(histogram)}}}};
}

// Settings of `training` with a special notation; nothing if there is nothing to write.
std::optional<Resolved> OwnValue(const plan::Training& training, std::string_view key) {
  if (key == "global_batch_size") return std::nullopt;  // gradient_accumulation says it
  if (key == "recompute_modules") return Text(model::Text(training.recompute_modules));
  if (key == "checkpointed_blocks") return Text(model::Text(training.checkpointed_blocks));
  if (key == "gradient_clipping") {
    if (!training.gradient_clipping) return std::nullopt;
    return Text(fmt::format("{}", *training.gradient_clipping));
  }
  if (key == "data_loading") {
    return training.data_loading ? std::optional(DataLoading(*training.data_loading))
                                 : std::nullopt;
  }
  if (key == "checkpoint_saving") {
    return training.checkpoint_saving ? std::optional(CheckpointSaving(*training.checkpoint_saving))
                                      : std::nullopt;
  }
  if (key == "lora") return Lora(training.lora);
  if (key == "lengths") return Lengths(*training.lengths);
  if (key == "frozen_dtype") return Text(Name(training.lora.frozen_dtype));
  STEPCAST_CHECK(key == "dispatch", "a special notation must be known here");
  if (training.dispatch == Dispatch()) return std::nullopt;
  return Resolved{Mapping{{"module", Text(ExactTime(training.dispatch.module))},
                          {"autograd", Text(ExactTime(training.dispatch.autograd))}}};
}

std::optional<Resolved> OwnValue(const plan::Parallelism& axes, std::string_view key) {
  if (key == "schedule") return Text(axes.schedule);
  if (key.starts_with("account_for_")) return std::nullopt;  // stage_layers says it
  STEPCAST_CHECK(key == "stage_layers", "a special notation must be known here");
  Resolved::Sequence layers;
  for (const std::int64_t count : axes.stage_layers) layers.push_back(Integer(count));
  return Resolved{std::move(layers)};
}

Resolved ReshardValue(const plan::ReshardAfterForward& reshard) {
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

// The same for the other sections.
std::optional<Resolved> OwnValue(const plan::Mixture& mixture, std::string_view key) {
  if (key == "imbalance" && mixture.imbalance != 1) {
    return Text(fmt::format("{}", mixture.imbalance));
  }
  if (key == "capacity_factor" && mixture.capacity_factor) {
    return Text(fmt::format("{}", *mixture.capacity_factor));
  }
  return std::nullopt;
}

std::optional<Resolved> OwnValue(const Scenario& scenario, std::string_view key) {
  const plan::DataParallel& data_parallel = scenario.plan.data_parallel;
  if (key == "bucket_size" || key == "first_bucket_size") {
    const bool first = key == "first_bucket_size";
    if (data_parallel.bucket_size) {
      const auto& size = first ? data_parallel.first_bucket_size : data_parallel.bucket_size;
      return size ? std::optional(Text(ExactBytes(*size))) : std::nullopt;
    }
    if (data_parallel.zero_stage == 3) return first ? std::nullopt : std::optional(Text("unit"));
    // A single bucket for all gradients: its size is exactly that of all of them.
    return Text(ExactBytes(
        BytesOf(scenario.model->parameter_count(), scenario.plan.training.reduce_dtype)));
  }
  if (key == "reshard_after_forward") return ReshardValue(data_parallel.reshard_after_forward);
  if (key == "powersgd") {
    const bool used = data_parallel.comm_hook == plan::CommHook::kPowerSgd;
    return used ? std::optional(PowerSgd(data_parallel.powersgd)) : std::nullopt;
  }
  STEPCAST_CHECK(key == "deepspeed", "a special notation must be known here");
  return DeepSpeed(data_parallel);
}

// The value of a row of a settings table; nothing for special notations.
template <typename Given, typename Kept>
std::optional<Resolved> ValueOf(const plan::Setting<Given, Kept>& setting, const Kept& plan) {
  if (const auto* type = std::get_if<plan::SwitchSetting<Given, Kept>>(&setting.type)) {
    return Boolean(plan.*type->kept);
  }
  if (const auto* count = std::get_if<plan::CountSetting<Given, Kept>>(&setting.type)) {
    return Integer(plan.*count->kept);
  }
  if (const auto* word = std::get_if<plan::WordSetting<Given, Kept>>(&setting.type)) {
    return Text(word->name(plan));
  }
  return std::nullopt;
}

// Appends the settings that the scenario has and that have an effect. `own` returns those with a
// special notation.
void AppendSettings(const auto& settings, const Scenario& scenario, const auto& plan,
                    const auto& own, Mapping& mapping) {
  const plan::DataParallel& data_parallel = scenario.plan.data_parallel;
  const auto* architecture = std::get_if<model::Architecture>(&scenario.model->source);
  for (const auto& setting : settings) {
    if (!setting.uses.HasEffect(data_parallel.framework, data_parallel.zero_stage)) continue;
    if (setting.of_architectures && architecture == nullptr) continue;
    if (setting.had_by != nullptr && !setting.had_by(*architecture)) continue;
    if (setting.shown != nullptr && !setting.shown(plan)) continue;
    auto value = ValueOf(setting, plan);
    if (!value) value = OwnValue(own, setting.key);
    if (value) mapping.emplace_back(setting.key, *std::move(value));
  }
}

Mapping Training(const Scenario& scenario) {
  Mapping mapping;
  const plan::Training& training = scenario.plan.training;
  AppendSettings(plan::TrainingSettings(), scenario, training, training, mapping);
  return mapping;
}

Mapping Parallelism(const Scenario& scenario) {
  Mapping mapping;
  const plan::Parallelism& axes = scenario.plan.parallelism;
  AppendSettings(plan::ParallelismSettings(), scenario, axes, axes, mapping);
  return mapping;
}

Mapping Experts(const Scenario& scenario) {
  Mapping mapping;
  const plan::Mixture& mixture = scenario.plan.mixture;
  AppendSettings(plan::MixtureSettings(), scenario, mixture, mixture, mapping);
  return mapping;
}

Mapping DataParallel(const Scenario& scenario) {
  const plan::DataParallel& data_parallel = scenario.plan.data_parallel;
  Mapping mapping;
  mapping.emplace_back("zero_stage", Integer(data_parallel.zero_stage));
  mapping.emplace_back("framework", Text(plan::Name(data_parallel.framework)));
  AppendSettings(plan::DataParallelSettings(), scenario, data_parallel, scenario, mapping);
  return mapping;
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
  root.emplace_back("training", Resolved{Training(scenario)});
  root.emplace_back("parallelism", Resolved{Parallelism(scenario)});
  if (const auto* architecture = std::get_if<model::Architecture>(&scenario.model->source);
      architecture != nullptr && architecture->experts.exist()) {
    root.emplace_back("experts", Resolved{Experts(scenario)});
  }
  root.emplace_back("data_parallel", Resolved{DataParallel(scenario)});
  return {std::move(root)};
}

std::string ToJson(const Resolved& resolved) {
  std::string text;
  Append(resolved, text);
  return text;
}

}  // namespace stepcast::scenario
