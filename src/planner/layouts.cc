#include "src/planner/layouts.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <system_error>

#include "fmt/format.h"
#include "src/parallel/named_schedules.h"
#include "src/plan/framework_style.h"
#include "src/plan/settings.h"
#include "src/planner/search_table.h"
#include "src/planner/sweep_grid.h"
#include "src/topology/cluster.h"

namespace stepcast::planner {
namespace {

using plan::Facts;
using plan::Request;
using plan::Violation;

template <auto member>
std::string NumberText(const Layout& layout) {
  return fmt::format("{}", layout.*member);
}
template <auto member>
bool TakeNumber(Layout& layout, std::string_view text) {
  if (text == kDefaultValue) {
    layout.*member = Layout().*member;
    return true;
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1) return false;
  layout.*member = number;
  return true;
}
template <auto member>
std::string SwitchText(const Layout& layout) {
  return layout.*member ? "true" : "false";
}
template <auto member>
bool TakeSwitch(Layout& layout, std::string_view text) {
  if (text != "true" && text != "false" && text != kDefaultValue) return false;
  layout.*member = text == "true";
  return true;
}

std::string ScheduleText(const Layout& layout) {
  return layout.schedule.empty() ? kDefaultValue : layout.schedule;
}
bool TakeSchedule(Layout& layout, std::string_view text) {
  layout.schedule = text == kDefaultValue ? "" : text;
  return true;
}

constexpr model::ContextMethod kMethods[] = {
    model::ContextMethod::kRing, model::ContextMethod::kAllGather, model::ContextMethod::kAllToAll,
    model::ContextMethod::kHierarchical};
std::string MethodText(const Layout& layout) { return model::Name(layout.context_method); }
bool TakeMethod(Layout& layout, std::string_view text) {
  const auto* const found =
      std::find_if(std::begin(kMethods), std::end(kMethods),
                   [&](model::ContextMethod method) { return text == model::Name(method); });
  if (found != std::end(kMethods)) layout.context_method = *found;
  if (text == kDefaultValue) layout.context_method = Layout().context_method;
  return found != std::end(kMethods) || text == kDefaultValue;
}

bool Always(const Layout& /*layout*/) { return true; }
bool IsDivided(const Layout& layout) { return layout.tensor > 1; }
bool IsPipeline(const Layout& layout) { return layout.pipeline > 1; }
bool HasContext(const Layout& layout) { return layout.context > 1; }
bool IsHierarchy(const Layout& layout) {
  return layout.context > 1 && layout.context_method == model::ContextMethod::kHierarchical;
}

constexpr LayoutKey kKeys[] = {
    {"parallelism.tensor", ParallelKind::kTensor, NumberText<&Layout::tensor>,
     TakeNumber<&Layout::tensor>, Always},
    {"parallelism.sequence_parallel", ParallelKind::kTensor, SwitchText<&Layout::sequence_parallel>,
     TakeSwitch<&Layout::sequence_parallel>, IsDivided},
    {"parallelism.pipeline", ParallelKind::kPipeline, NumberText<&Layout::pipeline>,
     TakeNumber<&Layout::pipeline>, Always},
    {"parallelism.schedule", ParallelKind::kPipeline, ScheduleText, TakeSchedule, IsPipeline},
    {"parallelism.virtual_stages", ParallelKind::kPipeline, NumberText<&Layout::virtual_stages>,
     TakeNumber<&Layout::virtual_stages>, IsPipeline},
    {"parallelism.account_for_embedding_in_pipeline_split", ParallelKind::kPipeline,
     SwitchText<&Layout::counts_embedding>, TakeSwitch<&Layout::counts_embedding>, IsPipeline},
    {"parallelism.account_for_loss_in_pipeline_split", ParallelKind::kPipeline,
     SwitchText<&Layout::counts_loss>, TakeSwitch<&Layout::counts_loss>, IsPipeline},
    {"parallelism.context", ParallelKind::kContext, NumberText<&Layout::context>,
     TakeNumber<&Layout::context>, Always},
    {"parallelism.context_method", ParallelKind::kContext, MethodText, TakeMethod, HasContext},
    {"parallelism.context_inner", ParallelKind::kContext, NumberText<&Layout::context_inner>,
     TakeNumber<&Layout::context_inner>, IsHierarchy},
    {"parallelism.expert", ParallelKind::kExpert, NumberText<&Layout::expert>,
     TakeNumber<&Layout::expert>, Always},
    {"parallelism.expert_tensor", ParallelKind::kExpert, NumberText<&Layout::expert_tensor>,
     TakeNumber<&Layout::expert_tensor>, Always},
};

// Layouts are checked with one sequence per micro-batch; other sizes are checked separately.
constexpr std::int64_t kOneSequence = 1;

}  // namespace

const char* Name(ParallelKind kind) {
  constexpr const char* kNames[] = {"tensor", "pipeline", "context", "expert"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::span<const LayoutKey> LayoutKeys() { return kKeys; }

const LayoutKey* FindLayoutKey(std::string_view key) {
  const auto* const found = std::find_if(std::begin(kKeys), std::end(kKeys),
                                         [&](const LayoutKey& row) { return key == row.key; });
  return found == std::end(kKeys) ? nullptr : found;
}

Layout LayoutOf(const plan::Plan& plan) {
  const plan::Parallelism& axes = plan.parallelism;
  Layout layout{.tensor = axes.tensor,
                .sequence_parallel = axes.sequence_parallel,
                .pipeline = axes.pipeline,
                .virtual_stages = axes.virtual_stages,
                .context = axes.context,
                .context_method = axes.context_method,
                .context_inner = axes.context_inner > 1 ? axes.context_inner : 0,
                .expert = axes.expert,
                .expert_tensor = axes.expert_tensor,
                .data = axes.data};
  if (layout.pipeline > 1) layout.schedule = axes.schedule;
  return layout;
}

LayoutRules::LayoutRules(const LayoutQuestion& question)
    : question_(question), own_(LayoutOf(question.scenario.plan)) {
  const plan::Plan& plan = question.scenario.plan;
  const plan::Training& training = plan.training;
  base_.framework = question.framework;
  base_.zero_stage = question.stage;
  base_.sequence_length = training.sequence_length;
  if (training.document_length > 0) base_.document_length = training.document_length;
  base_.lengths = training.lengths;
  base_.global_batch_size = training.global_batch_size;
  base_.micro_batch_size = kOneSequence;
  base_.precision = training.precision;
  base_.attention = training.attention;
  base_.compile = training.compile || question.compiles;
  base_.optimizer = training.optimizer;
  base_.torch = plan.software.torch;
  facts_ = question.facts;
  facts_.devices = question.devices;
  anywhere_ = facts_;
  anywhere_.devices.reset();
  if (!question.fills) facts_.devices.reset();
  has_experts_ = facts_.experts > 0;
}

Request LayoutRules::RequestOf(const Layout& layout) const {
  Request request = base_;
  request.tensor = layout.tensor;
  request.pipeline = layout.pipeline;
  request.context = layout.context;
  if (layout.tensor > 1) request.sequence_parallel = layout.sequence_parallel;
  if (layout.pipeline > 1) {
    if (!layout.schedule.empty()) request.schedule = layout.schedule;
    if (layout.schedule == own_.schedule) {
      request.listed_schedule = question_.scenario.plan.parallelism.listed;
    }
    request.virtual_stages = layout.virtual_stages;
    // Groups of any legal size. If any size is legal, one group of all micro-batches is.
    const std::int64_t micro_batches =
        *base_.global_batch_size / std::max<std::int64_t>(layout.data, 1);
    if (layout.schedule == plan::kInterleaved && GroupsMicroBatches() &&
        micro_batches >= layout.pipeline) {
      request.microbatch_group_size_per_vp_stage = micro_batches;
    }
    if (layout.counts_embedding) request.account_for_embedding_in_pipeline_split = true;
    if (layout.counts_loss) request.account_for_loss_in_pipeline_split = true;
    if (KeepsStageLayers(layout)) {
      request.stage_layers = question_.scenario.plan.parallelism.stage_layers;
    }
  }
  if (layout.context > 1) {
    if (plan::TraitsOf(question_.framework).context_parallel) {
      request.context_method = layout.context_method;
    }
    if (layout.context_inner > 0) request.context_inner = layout.context_inner;
  }
  if (layout.expert > 1) request.expert = layout.expert;
  if (plan::StyleOf(question_.framework).layers.divides_experts && has_experts_) {
    request.expert_tensor = layout.expert_tensor;
  }
  return request;
}

bool LayoutRules::KeepsStageLayers(const Layout& layout) const {
  return question_.own_stage_layers && layout.pipeline == own_.pipeline &&
         layout.virtual_stages == own_.virtual_stages && !layout.counts_embedding &&
         !layout.counts_loss;
}

// Only rules about layouts; rules about other settings are checked where those are chosen.
std::vector<Violation> LayoutRules::Broken(const Request& request, bool on_devices) const {
  std::vector<Violation> broken = plan::Check(request, on_devices ? facts_ : anywhere_);
  std::erase_if(broken, [&](const Violation& violation) {
    if (question_.stage_layers_vary && violation.code == "plan.stage-layers") return true;
    return !violation.key.starts_with("parallelism.") &&
           violation.key != "data_parallel.zero_stage" && violation.code != "plan.batch" &&
           violation.code != "plan.context" && violation.code != "plan.tensor-division";
  });
  return broken;
}

std::optional<Violation> LayoutRules::WhyNot(const Layout& layout) const {
  std::vector<Violation> broken = Broken(RequestOf(layout), true);
  if (broken.empty()) return std::nullopt;
  return std::move(broken.front());
}

std::vector<std::int64_t> LayoutRules::MicroBatches(const Layout& layout,
                                                    const std::vector<std::int64_t>& sizes) const {
  Request request = RequestOf(layout);
  std::vector<std::int64_t> possible;
  for (const std::int64_t size : sizes) {
    request.micro_batch_size = size;
    const std::vector<Violation> broken = plan::Check(request, facts_);
    const bool refused = std::any_of(broken.begin(), broken.end(), [](const Violation& violation) {
      return violation.code == "plan.batch" || violation.code == "plan.too-many-micro-batches" ||
             violation.code == "plan.too-many-tokens" || violation.code == "plan.schedule";
    });
    if (!refused) possible.push_back(size);
  }
  return possible;
}

bool LayoutRules::GroupsMicroBatches() const {
  return plan::FindSetting(plan::ParallelismSettings(), "microbatch_group_size_per_vp_stage")
      ->uses.Has(question_.framework);
}

bool LayoutRules::Overlaps(const Layout& layout) const {
  const model::TensorOverlap own = plan::StyleOf(question_.framework).layers.tensor_overlap;
  if (own == model::TensorOverlap::kNone || !layout.sequence_parallel) return false;
  Request request = RequestOf(layout);
  request.tensor_overlap = own;
  // This number of sequences divides evenly for all layouts.
  constexpr std::int64_t kMany = 64;
  request.micro_batch_size = kMany;
  const std::vector<Violation> broken = plan::Check(request, anywhere_);
  return std::none_of(broken.begin(), broken.end(), [](const Violation& violation) {
    return violation.key == "training.tensor_overlap";
  });
}

bool LayoutRules::Allowed(ParallelKind kind) const {
  return std::find(question_.kinds.begin(), question_.kinds.end(), kind) != question_.kinds.end();
}

// Sets keys whose default is not that of Layout.
void LayoutRules::SetFrameworksDefault(const LayoutKey& row, Layout& layout) const {
  const std::string_view key = row.key;
  if (key == "parallelism.context_method") layout.context_method = plan::ContextMethodOf(base_);
  if (key == "parallelism.expert_tensor") {
    Request request = base_;
    request.tensor = layout.tensor;
    layout.expert_tensor = plan::ExpertTensorOf(request, has_experts_);
  }
}

// Expands layouts by the table's values for one key after the other; keys without effect stay.
std::vector<Layout> LayoutRules::With(std::vector<Layout> layouts,
                                      std::initializer_list<const char*> keys) const {
  for (const char* key : keys) {
    const LayoutKey& row = *FindLayoutKey(key);
    const SearchRow* const searched = FindSearchRow(key, question_.framework, question_.stage);
    const auto given = question_.given->find(key);
    const bool is_degree = fmt::format("parallelism.{}", Name(row.kind)) == key;
    // The times of a layer list hold only for its own degrees.
    const bool keeps_own = !facts_.has_ends && row.kind != ParallelKind::kPipeline;
    std::vector<Layout> with;
    for (Layout& layout : layouts) {
      if (!row.used(layout) || (searched == nullptr && given == question_.given->end())) {
        with.push_back(std::move(layout));
        continue;
      }
      std::vector<std::string> values;
      if (given != question_.given->end()) {
        values = given->second;
      } else if (is_degree && !Allowed(row.kind) && !keeps_own) {
        values = {"1"};
      } else {
        values = searched->values({.scenario = question_.scenario,
                                   .facts = facts_,
                                   .framework = question_.framework,
                                   .stage = question_.stage,
                                   .devices = question_.devices,
                                   .own = own_,
                                   .layout = layout});
      }
      for (const std::string& value : values) {
        Layout next = layout;
        if (row.take(next, value)) with.push_back(std::move(next));
        if (value == kDefaultValue) SetFrameworksDefault(row, with.back());
      }
    }
    layouts = std::move(with);
  }
  return layouts;
}

std::vector<Layout> LayoutRules::WithoutMistakes(std::vector<Layout> layouts) const {
  std::erase_if(layouts,
                [&](const Layout& layout) { return !Broken(RequestOf(layout), false).empty(); });
  return layouts;
}

std::vector<Layout> LayoutRules::Tensors() const {
  return WithoutMistakes(With({Layout()}, {"parallelism.tensor", "parallelism.sequence_parallel"}));
}

std::vector<Layout> LayoutRules::Pipelines() const {
  return WithoutMistakes(With(
      {Layout()}, {"parallelism.pipeline", "parallelism.schedule", "parallelism.virtual_stages",
                   "parallelism.account_for_embedding_in_pipeline_split",
                   "parallelism.account_for_loss_in_pipeline_split"}));
}

std::vector<Layout> LayoutRules::Contexts(const Layout& layout) const {
  return With({layout},
              {"parallelism.context", "parallelism.context_method", "parallelism.context_inner"});
}

std::vector<Layout> LayoutRules::Experts(const Layout& layout) const {
  if (!has_experts_) {
    Layout own = layout;
    if (!facts_.has_ends) own.expert = own_.expert;
    return {own};
  }
  return With({layout}, {"parallelism.expert", "parallelism.expert_tensor"});
}

std::vector<Layout> LayoutRules::Legal() const {
  const std::vector<Layout> pipelines = Pipelines();
  std::vector<Layout> legal;
  for (const Layout& tensor : Tensors()) {
    for (const Layout& pipeline : pipelines) {
      Layout both = pipeline;
      both.tensor = tensor.tensor;
      both.sequence_parallel = tensor.sequence_parallel;
      for (Layout& context : Contexts(both)) {
        if (question_.fills && question_.devices % context.ranks_per_replica() != 0) continue;
        context.data = std::max<std::int64_t>(question_.devices / context.ranks_per_replica(), 1);
        for (Layout& layout : Experts(context)) {
          if (Broken(RequestOf(layout), true).empty()) legal.push_back(std::move(layout));
        }
      }
    }
  }
  return legal;
}

}  // namespace stepcast::planner
