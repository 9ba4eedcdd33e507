#include "src/report/step_figures.h"

#include <algorithm>
#include <variant>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/quantity.h"
#include "src/forecast/corrections.h"
#include "src/model/sample_lengths.h"
#include "src/model/stage.h"
#include "src/plan/settings.h"
#include "src/program/program.h"

namespace stepcast::report {
namespace {

using enum Align;

// Below this, learned runs change a step by less than the printed precision.
constexpr double kLeastKnown = 0.005;

std::string Cluster(const scenario::Scenario& scenario) {
  const topology::Cluster& cluster = *scenario.cluster;
  const std::string gpu = cluster.gpu().empty() ? "device" : cluster.gpu();
  if (cluster.flat()) return fmt::format("{} x {} behind one switch", cluster.devices(), gpu);
  const auto of = [&](int nodes, const std::string& device) {
    return fmt::format("{} {} of {} x {}", Grouped(nodes), nodes == 1 ? "node" : "nodes",
                       cluster.gpus_per_node(), device);
  };
  int first = cluster.nodes();
  std::string others;
  for (const scenario::KindOfNode& kind : scenario.other_nodes) {
    first -= kind.nodes;
    others += ", " + of(kind.nodes, kind.gpu.name);
  }
  return of(first, gpu) + others;
}

std::string Reshard(const plan::ReshardAfterForward& reshard) {
  if (const bool* flag = std::get_if<bool>(&reshard)) {
    return *flag ? "reshard after forward" : "no reshard after forward";
  }
  return fmt::format("reshard to {} ranks after forward", std::get<std::int64_t>(reshard));
}

// FullyShardedDataParallel's own terms: the ShardingStrategy, and how its units are chosen.
std::string Fsdp1(const plan::Plan& plan) {
  const plan::DataParallel& data = plan.data_parallel;
  const bool hybrid = data.shard_group_size < plan.parallelism.data;
  const char* strategy = data.zero_stage == 3 ? (hybrid ? "HYBRID_SHARD" : "FULL_SHARD")
                                              : (hybrid ? "_HYBRID_SHARD_ZERO2" : "SHARD_GRAD_OP");
  return fmt::format(", {}, backward prefetch {}{}{}", strategy, plan::Name(data.backward_prefetch),
                     data.forward_prefetch ? ", forward prefetch" : "",
                     data.limit_all_gathers ? "" : ", all-gathers not limited");
}

std::string Plan(const plan::Plan& plan) {
  const plan::DataParallel& data = plan.data_parallel;
  std::string text =
      fmt::format("{}, ZeRO stage {}, {} data-parallel ranks", plan::Name(data.framework),
                  data.zero_stage, Grouped(plan.parallelism.data));
  if (data.shard_group_size > 0 && data.shard_group_size < plan.parallelism.data) {
    text += fmt::format(" sharded over {}", Grouped(data.shard_group_size));
  }
  if (plan.parallelism.tensor > 1) {
    text += fmt::format(", layers over {} ranks{}", plan.parallelism.tensor,
                        plan.parallelism.sequence_parallel ? " with sequence parallelism" : "");
  }
  if (plan.parallelism.context > 1) {
    text += fmt::format(", sequences over {} ranks by {}", plan.parallelism.context,
                        model::Name(plan.parallelism.context_method));
  }
  if (plan.parallelism.pipeline > 1) {
    text += fmt::format(", {} pipeline stages by {}", plan.parallelism.pipeline,
                        plan.parallelism.schedule);
  }
  if (plan.parallelism.expert > 1) {
    text += fmt::format(", experts over {} ranks", plan.parallelism.expert);
    if (plan.parallelism.expert_tensor > 1) {
      text += fmt::format(" x {} parts", plan.parallelism.expert_tensor);
    }
    text += fmt::format(" by {}", model::Name(plan.mixture.dispatcher));
    if (plan.mixture.overlap_communication) text += ", overlapping another micro-batch";
    if (plan.mixture.overlap_shared_experts) text += ", overlapping shared experts";
  }
  if (plan::HasEffect(data, "backward_prefetch")) {
    text += Fsdp1(plan);
  } else if (plan::HasEffect(data, "deepspeed")) {
    if (data.zero_stage > 0) {
      text += fmt::format(", buckets of {} elements", Grouped(data.deepspeed.reduce_bucket_size));
    }
  } else if (plan::HasEffect(data, "prefetch")) {
    text += fmt::format(", prefetch {}, {}", data.prefetch, Reshard(data.reshard_after_forward));
  } else if (data.bucket_size.has_value()) {
    text += data.bucket_size == Bytes(0)
                ? std::string(", one bucket per tensor")
                : fmt::format(", buckets of {}", ExactBytes(*data.bucket_size));
  }
  if (!data.overlap) text += ", no overlap";
  return text;
}

// The tokens of a step's sequences.
std::string Sequences(const plan::Training& training) {
  const std::string longest = Grouped(training.sequence_length);
  if (!training.lengths) return longest + " tokens";
  const std::string mean = Decimal(model::MeanLength(training.lengths->histogram), 0);
  switch (training.lengths->batching) {
    case plan::Batching::kPacked:
      return fmt::format("{} tokens, packed with samples of {} tokens on average", longest, mean);
    case plan::Batching::kPadded:
      return fmt::format(
          "{} tokens on average, padded to the longest sequence of a micro-batch, up to {} tokens",
          mean, longest);
    case plan::Batching::kByLength:
      return fmt::format("{} tokens on average, batched by length, up to {} tokens", mean, longest);
  }
  return "";
}

std::string Batch(const plan::Plan& plan) {
  const plan::Training& training = plan.training;
  return fmt::format("{} x {}: micro-batch {} x accumulation {} x {} ranks",
                     Grouped(training.global_batch_size), Sequences(training),
                     training.micro_batch_size, training.gradient_accumulation,
                     Grouped(plan.parallelism.data));
}

std::string Precision(const plan::Training& training) {
  std::string text =
      fmt::format("{}; parameters {}, gradients {}, reduced in {}; {}", Name(training.precision),
                  Name(training.parameter_dtype), Name(training.gradient_dtype),
                  Name(training.reduce_dtype), plan::Name(training.optimizer));
  if (!plan::HasOwnKernels(training.optimizer)) {
    text += fmt::format(" ({})", plan::Name(training.optimizer_implementation));
  }
  if (training.optimizer_in_backward) text += " in backward";
  if (training.activation_checkpointing != model::Checkpointing::kNone) {
    text += fmt::format("; {} recomputation", model::Name(training.activation_checkpointing));
  }
  return text;
}

}  // namespace

std::string RangeText(const std::optional<forecast::TimeRange>& range) {
  if (!range) return "";
  return fmt::format(" (90 % range: {} to {})", FormatTime(range->low), FormatTime(range->high));
}

namespace {

std::string LoadText(const plan::Mixture& mixture) {
  if (mixture.imbalance == 1) return "loads are perfectly balanced (experts.imbalance 1)";
  return fmt::format(
      "in every layer, ranks wait for a rank with {} times the mean load; the memory forecast is "
      "for the most loaded rank",
      mixture.imbalance);
}

std::string MixtureText(const plan::Mixture& mixture) {
  std::string text = fmt::format("{} matrix multiplications, router in {}",
                                 model::Name(mixture.products), Name(mixture.router_dtype));
  if (mixture.implementation == model::ExpertImplementation::kTransformers) {
    return "transformers' layers, " + text + "; every rank has all experts";
  }
  if (mixture.implementation == model::ExpertImplementation::kDeepSpeed) {
    return fmt::format(
        "DeepSpeed's layer, {}; each expert accepts {} times the mean number of rows, at least {} "
        "from each rank, and drops the other rows",
        text, *mixture.capacity_factor, mixture.min_capacity);
  }
  if (mixture.implementation == model::ExpertImplementation::kAutoEp) {
    text = "AutoEP's layers, " + text;
  }
  if (mixture.dispatch_dtype != DataType::kBf16) {
    text += fmt::format(", rows dispatched in {}", Name(mixture.dispatch_dtype));
  }
  return text + "; " + LoadText(mixture);
}

// The kernels of the cross entropy; a layer list includes them in its times.
std::string LossText(const scenario::Scenario& scenario) {
  if (scenario.model->is_layer_list()) return "";
  const plan::Training& training = scenario.plan.training;
  std::string text = fmt::format(", loss {}", model::Name(training.loss));
  if (training.loss_chunk > 0) text += fmt::format(" by {} tokens", Grouped(training.loss_chunk));
  return text;
}

std::string SoftwareText(const scenario::Scenario& scenario) {
  const plan::Software& software = scenario.plan.software;
  const char* assumed = "";
  if (scenario.torch_assumed && scenario.nccl_assumed) {
    assumed = " (assumed)";
  } else if (scenario.torch_assumed) {
    assumed = " (torch is assumed)";
  } else if (scenario.nccl_assumed) {
    assumed = " (NCCL is assumed)";
  }
  return fmt::format("torch {}.{}, NCCL {}.{}{}", software.torch.major, software.torch.minor,
                     software.nccl.major, software.nccl.minor, assumed);
}

}  // namespace

std::string ParametersText(const model::Model& model) {
  std::string text = fmt::format("{} parameters", Grouped(model.all_parameter_count()));
  if (!model.frozen.empty()) {
    text += fmt::format(", {} of them trained", Grouped(model.parameter_count()));
  }
  const auto* architecture = std::get_if<model::Architecture>(&model.source);
  if (architecture != nullptr && architecture->experts.exist()) {
    text += fmt::format(", {} active per token", Grouped(model::ActiveParametersOf(model).all));
  }
  return text;
}

std::string Header(const scenario::Scenario& scenario,
                   const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string out = scenario.name + "\n\n";
  for (const auto& [what, text] : facts) out += fmt::format("{:<10} {}\n", what, text);
  return out;
}

std::vector<std::pair<std::string, std::string>> Facts(const scenario::Scenario& scenario) {
  const model::Model& model = *scenario.model;
  std::vector<std::pair<std::string, std::string>> facts = {
      {"model", fmt::format("{}, {}", model.name, ParametersText(model))},
      {"cluster", Cluster(scenario)},
      {"plan", Plan(scenario.plan) + LossText(scenario)},
      {"batch", Batch(scenario.plan)},
      {"precision", Precision(scenario.plan.training)}};
  if (const auto* architecture = std::get_if<model::Architecture>(&model.source);
      architecture != nullptr && architecture->experts.exist()) {
    facts.insert(facts.begin() + 3, {"experts", MixtureText(scenario.plan.mixture)});
  } else if (architecture == nullptr && scenario.plan.mixture.imbalance != 1) {
    facts.insert(facts.begin() + 3, {"experts", LoadText(scenario.plan.mixture)});
  }
  if (scenario.attention_assumed) {
    facts.emplace_back("attention",
                       fmt::format("{} (assumed)", model::Name(scenario.plan.training.attention)));
  }
  if (const std::int64_t idle = scenario.idle_devices(); idle > 0) {
    facts.insert(
        facts.begin() + 2,
        {"idle",
         fmt::format("{} of the topology's {} GPUs are not used; rates refer to the other {} GPUs",
                     Grouped(idle), Grouped(idle + scenario.cluster->devices()),
                     Grouped(scenario.cluster->devices()))});
  }
  return facts;
}

std::vector<std::pair<std::string, std::string>> ForecastFacts(const scenario::Scenario& scenario) {
  auto facts = Facts(scenario);
  facts.emplace_back("software", SoftwareText(scenario));
  return facts;
}

namespace {

std::string LengthsText(const forecast::LengthsForecast& lengths) {
  constexpr const char* kNext = "\n           ";
  std::string text = fmt::format("lengths    {} tokens per sample on average, ",
                                 Decimal(lengths.sample_tokens, 0));
  text += lengths.padding() == 0
              ? std::string("no padding")
              : fmt::format("padded to {}: {} % of the computed tokens are padding",
                            Decimal(lengths.padded_tokens, 0), Decimal(100 * lengths.padding(), 1));
  constexpr double kToken = 1;
  if (!lengths.wait_in_micro_batches) {
    text += kNext;
    text += "at the end of a step, ranks wait for the slowest rank";
  } else if (lengths.slowest_tokens > lengths.padded_tokens + kToken) {
    text += kNext;
    text +=
        fmt::format("ranks wait for the rank with the longest micro-batch, {} tokens on average",
                    Decimal(lengths.slowest_tokens, 0));
  }
  text += kNext;
  text += fmt::format("memory and traces show the longest micro-batches, {} tokens\n",
                      Grouped(lengths.steps.back().tokens));
  return text;
}

}  // namespace

std::vector<StepFigure> StepFigures(const forecast::Forecast& forecast) {
  const auto with_flops = [&](double value) {
    return forecast.has_flops ? std::optional(value) : std::nullopt;
  };
  return {{.name = "tokens/s",
           .key = "tokens_per_s",
           .value = forecast.tokens_per_second,
           .title = "Throughput"},
          {.name = "tokens/s per GPU",
           .key = "tokens_per_s_per_gpu",
           .value = forecast.tokens_per_second_per_gpu,
           .digits = 1,
           .title = "Throughput of a GPU"},
          {.name = "MFU, %",
           .key = "mfu",
           .value = with_flops(forecast.mfu),
           .digits = 1,
           .scale = kHundred,
           .line = "MFU",
           .title = "Model FLOPs utilization"},
          {.name = "HFU, %",
           .key = "hfu",
           .value = with_flops(forecast.hfu),
           .digits = 1,
           .scale = kHundred,
           .line = "HFU",
           .title = "Hardware FLOPs utilization"}};
}

std::vector<MemoryFigure> MemoryFigures(const forecast::MemoryForecast& memory) {
  return {{"peak allocated", "peak_bytes", memory.peak},
          {"reserved by the allocator", "reserved_bytes", memory.reserved},
          {"outside the allocator", "outside_bytes", memory.outside},
          {"capacity", "capacity_bytes", memory.capacity}};
}

std::string ThroughputLine(const forecast::Forecast& forecast) {
  std::vector<std::string> rates;
  for (const StepFigure& figure : StepFigures(forecast)) {
    if (*figure.line == 0) rates.push_back(fmt::format("{} {}", figure.text(), figure.name));
  }
  return fmt::format("throughput {}\n", fmt::join(rates, ", "));
}

std::string UtilizationLines(const forecast::Forecast& forecast) {
  std::string out;
  for (const StepFigure& figure : StepFigures(forecast)) {
    if (*figure.line == 0 || !figure.value) continue;
    out += fmt::format("{:<10} {} %\n", figure.line, figure.text());
  }
  return out;
}

std::string Throughput(const forecast::Forecast& forecast) {
  std::string out = fmt::format("step time  {}{}\n", FormatTime(forecast.step_time),
                                RangeText(forecast.step_time_range)) +
                    ThroughputLine(forecast);
  if (forecast.lengths) out += LengthsText(*forecast.lengths);
  if (const auto& unknown = forecast.unknown_host) {
    out += fmt::format("host       {}\n", forecast::Sentence(*unknown));
  }
  if (const auto& gap = forecast.known_gap) {
    out += fmt::format("slower     {}: measured steps took up to {} times as long as forecast\n",
                       gap->kind, Decimal(gap->factor, 2));
  }
  if (const auto& learned = forecast.learned) {
    out +=
        learned->known < kLeastKnown
            ? std::string(
                  "learned    no correction, because the calibration profile has no similar run\n")
            : fmt::format(
                  "learned    correction factor {} for the simulated step time of {}, from similar "
                  "runs ({} % certain)\n",
                  Decimal(learned->factor, 3),
                  FormatTime(forecast.step_time - forecast.time.learned),
                  Decimal(100 * learned->known, 0));
  }
  return out + UtilizationLines(forecast);
}

Table TimeRows(const forecast::Forecast& forecast) {
  Table table({{"where the time goes", kLeft}, {"ms"}, {"%"}});
  const auto row = [&](const char* what, Time time) {
    table.AddRow({what, Milliseconds(time), Percent(time, forecast.step_time)});
  };
  for (const forecast::TimePart& part : forecast::PartsOf(forecast.time)) {
    if (part.always || part.time != Time()) row(part.name, part.time);
  }
  table.AddRule();
  row("step", forecast.step_time);
  return table;
}

std::string TimeTable(const forecast::Forecast& forecast) { return TimeRows(forecast).ToString(); }

Table ClassRows(const forecast::Forecast& forecast) {
  std::vector<forecast::TimePart> shown;
  for (const forecast::TimePart& part : forecast::PartsOf(forecast.time)) {
    bool some = part.always;
    for (const forecast::ClassForecast& own : forecast.classes) {
      for (const forecast::TimePart& other : forecast::PartsOf(own.time)) {
        some = some || (std::string_view(other.key) == part.key && other.time > Time());
      }
    }
    if (some) shown.push_back(part);
  }
  // Only properties that differ between classes become columns.
  const auto differ = [&](const auto& of) {
    return std::any_of(forecast.classes.begin(), forecast.classes.end(),
                       [&](const auto& own) { return of(own) != of(forecast.classes.front()); });
  };
  const bool stages = differ([](const auto& own) { return own.label.stage; });
  const bool speeds = differ([](const auto& own) { return own.speed; });
  const bool devices = differ([](const auto& own) { return own.device; });
  std::vector<Column> columns;
  if (stages) columns.push_back({"stage"});
  columns.push_back({"first rank"});
  columns.push_back({"ranks"});
  if (devices) columns.push_back({"device", kLeft});
  if (speeds) columns.push_back({"speed"});
  if (stages) columns.push_back({"in flight"});
  for (const forecast::TimePart& part : shown) {
    columns.push_back({fmt::format("{} ms", part.name)});
  }
  columns.push_back({"peak GiB"});
  Table table(columns);
  for (const forecast::ClassForecast& own : forecast.classes) {
    std::vector<std::string> row;
    if (stages) row.push_back(std::to_string(own.label.stage));
    row.push_back(std::to_string(own.first_rank));
    row.push_back(std::to_string(own.ranks));
    if (devices) row.push_back(own.device);
    if (speeds) row.push_back(fmt::format("{}", own.speed));
    if (stages) row.push_back(std::to_string(own.in_flight));
    for (const forecast::TimePart& part : shown) {
      for (const forecast::TimePart& other : forecast::PartsOf(own.time)) {
        if (std::string_view(other.key) == part.key) row.push_back(Milliseconds(other.time));
      }
    }
    row.push_back(fmt::format("{:.2f}", static_cast<double>(own.memory.peak.count()) / (1 << 30)));
    table.AddRow(std::move(row));
  }
  return table;
}

std::string ClassTable(const forecast::Forecast& forecast) {
  if (forecast.classes.empty()) return "";
  return "\nclasses of ranks\n" + ClassRows(forecast).ToString();
}

AnswerTable CollectiveRows(const forecast::Forecast& forecast) {
  double most = 0;
  for (const forecast::CollectiveSummary& summary : forecast.collectives) {
    most = std::max(most, summary.wire_bytes_per_rank);
  }
  const ByteUnit unit = UnitFor(most);
  AnswerTable table{{{"collective", "collective", kLeft},
                     {"group", "group", kLeft},
                     {"calls", "calls", Align::kRight, /*spare=*/true},
                     {fmt::format("sent {}/rank", unit.name), "bytes_per_rank"},
                     {"", "algorithm"},
                     {"", "protocol"},
                     {"", "channels"},
                     {"total ms", "total_s"},
                     {"algorithm", "", kLeft},
                     {"channels", "", Align::kRight, /*spare=*/true},
                     {"cost is", "provenance", kLeft}}};
  for (const forecast::CollectiveSummary& summary : forecast.collectives) {
    const Cell channels = summary.channels == 0 ? Cell("-", Json()) : Plain(summary.channels);
    table.Add({Name(summary.collective), summary.group, summary.calls,
               Cell(In(unit, summary.wire_bytes_per_rank), JsonNumber(summary.wire_bytes_per_rank)),
               summary.algorithm, WordOr(summary.protocol), channels, summary.total,
               summary.algorithm + (summary.protocol.empty() ? "" : " " + summary.protocol),
               channels, cost::Name(summary.provenance)});
  }
  return table;
}

std::string CollectiveTable(const forecast::Forecast& forecast) {
  if (forecast.collectives.empty()) return "no collectives\n";
  std::string out = CollectiveRows(forecast).Text();
  out += fmt::format("communication is in flight for {} ms of the step, exposed for {} ms\n",
                     Milliseconds(forecast.communication_total),
                     Milliseconds(forecast.time.exposed_communication));
  return out;
}

Table MemoryRows(const forecast::MemoryForecast& memory) {
  const ByteUnit unit = UnitFor(memory.peak);
  Table table({{fmt::format("memory of rank {}", memory.rank), kLeft}, {unit.name}});
  for (std::size_t i = 0; i < memory.at_peak.size(); ++i) {
    table.AddRow({std::string(kCategoryNames[i]), In(unit, memory.at_peak[i])});
  }
  table.AddRule();
  for (const MemoryFigure& figure : MemoryFigures(memory)) {
    table.AddRow({figure.name, In(unit, figure.bytes)});
  }
  table.AddRow({"headroom", In(unit, memory.left())});
  return table;
}

std::string MemoryTable(const forecast::MemoryForecast& memory) {
  std::string out = MemoryRows(memory).ToString();
  if (memory.offloads()) {
    out += fmt::format("the ranks of a node store {} in host memory (capacity: {})",
                       FormatBytes(memory.host), FormatBytes(memory.host_capacity));
    if (memory.drives > Bytes(0)) {
      out += fmt::format(", and {} on drives (capacity: {})", FormatBytes(memory.drives),
                         FormatBytes(memory.drives_capacity));
    }
    out += "\n";
  }
  if (memory.padding > Bytes(0)) {
    out += fmt::format("{} of the peak is padding, because all shards have the same length\n",
                       FormatBytes(memory.padding));
  }
  return out;
}

Json RangeJson(const std::optional<forecast::TimeRange>& range) {
  return range ? Json{JsonSeconds(range->low), JsonSeconds(range->high)} : Json();
}

Json RangeJson(const std::optional<forecast::BytesRange>& range) {
  return range ? Json{range->low.count(), range->high.count()} : Json();
}

void AddCategories(Json& object, const forecast::BytesByCategory& bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    object[std::string(kCategoryNames[i]) + "_bytes"] = bytes[i].count();
  }
}

void AddStep(const forecast::Forecast& forecast, Json& object) {
  object["step_time_s"] = JsonSeconds(forecast.step_time);
  for (const StepFigure& figure : StepFigures(forecast)) {
    object[figure.key] = figure.value ? Json(*figure.value) : Json();
  }
}

Json TimeJson(const std::vector<forecast::TimePart>& parts) {
  Json object;
  for (const forecast::TimePart& part : parts) {
    if (part.always || part.time != Time()) object[part.key] = JsonSeconds(part.time);
  }
  return object;
}

Json ClassesJson(const forecast::Forecast& forecast) {
  AnswerTable classes{Keys("stage in_flight ranks first_rank speed device time_s memory")};
  for (const forecast::ClassForecast& own : forecast.classes) {
    classes.Add({own.label.stage, own.in_flight, own.ranks, own.first_rank, JsonNumber(own.speed),
                 WordOr(own.device), TimeJson(own.time), MemoryJson(own.memory)});
  }
  return classes.ToJson();
}

Json LengthsJson(const forecast::LengthsForecast& lengths) {
  AnswerTable steps{Keys("tokens of_ranks of_steps step_time_s")};
  for (const forecast::LengthsForecast::Step& step : lengths.steps) {
    steps.Add({step.tokens, JsonNumber(step.of_ranks), JsonNumber(step.of_steps), step.step_time});
  }
  return Json{{"sample_tokens", JsonNumber(lengths.sample_tokens)},
              {"padded_tokens", JsonNumber(lengths.padded_tokens)},
              {"padding", JsonNumber(lengths.padding())},
              {"wait_in_micro_batches", lengths.wait_in_micro_batches},
              {"slowest_tokens", JsonNumber(lengths.slowest_tokens)},
              {"steps", steps.ToJson()}};
}

Json CommunicationJson(const forecast::Forecast& forecast) {
  double bytes_per_rank = 0;
  for (const forecast::CollectiveSummary& summary : forecast.collectives) {
    bytes_per_rank += summary.wire_bytes_per_rank;
  }
  return Json{
      {"bytes_per_rank", JsonNumber(bytes_per_rank)},
      {"total_s", JsonSeconds(forecast.communication_total)},
      {"exposed_s", JsonSeconds(forecast.time.exposed_communication)},
      {"collectives", CollectiveRows(forecast).ToJson()},
  };
}

Json MemoryJson(const forecast::MemoryForecast& memory) {
  Json object{{"rank", memory.rank}};
  for (const MemoryFigure& figure : MemoryFigures(memory)) {
    object[figure.key] = figure.bytes.count();
  }
  object["fits"] = memory.fits;
  object["verdict"] = Name(memory.verdict());
  object["fit_probability"] = memory.fit_probability;
  AddCategories(object, memory.at_peak);
  object["padding_bytes"] = memory.padding.count();
  object["peak_range_bytes"] = RangeJson(memory.peak_range);
  object["error_bytes"] = memory.error.count();
  object["allocator_flushes"] = memory.allocator_flushes;
  if (memory.allocator_may_hang) object["allocator_may_hang"] = true;
  if (memory.offloads()) {
    object["host_bytes"] = memory.host.count();
    object["host_capacity_bytes"] = memory.host_capacity.count();
    object["nvme_bytes"] = memory.drives.count();
    object["nvme_capacity_bytes"] = memory.drives_capacity.count();
  }
  return object;
}

void Close(const scenario::Scenario& scenario, double seconds, Json& document) {
  document["resolved"] = ToJson(scenario.resolved);
  document["warnings"] = scenario.warnings;
  document["run"] = {{"seconds", seconds}};
}

}  // namespace stepcast::report
