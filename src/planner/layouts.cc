#include "src/planner/layouts.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>
#include <tuple>
#include <variant>

#include "fmt/format.h"
#include "src/parallel/named_schedules.h"
#include "src/plan/framework_style.h"
#include "src/planner/search_table.h"
#include "src/planner/sweep_grid.h"
#include "src/topology/cluster.h"

namespace stepcast::planner {
namespace {

using plan::Facts;
using plan::Request;
using plan::Violation;

// Layouts are checked with one sequence per micro-batch; other sizes are checked separately.
constexpr std::int64_t kOneSequence = 1;

}  // namespace

LayoutKey::LayoutKey(std::string_view name)
    : key(name),
      setting(plan::FindSetting(plan::ParallelismSettings(), name.substr(name.find('.') + 1))),
      kind(setting->without.empty() ? setting->key : setting->without) {
  kind = kind.substr(0, kind.find('_'));  // "expert" of expert_tensor
}

std::string LayoutKey::Text(const Layout& layout) const {
  return std::visit(
      [&](const auto& type) -> std::string {
        if constexpr (requires { type.kept; }) {
          return fmt::format("{}", layout.*type.kept);
        } else if constexpr (requires { type.name; }) {
          return std::string(type.name(layout));
        } else {
          return layout.schedule.empty() ? kDefaultValue : layout.schedule;
        }
      },
      setting->type);
}

bool LayoutKey::Take(Layout& layout, std::string_view text) const {
  const std::string default_text = Text(Layout());
  if (text == kDefaultValue) text = default_text;
  return std::visit(
      [&](const auto& type) {
        if constexpr (requires { type.least; }) {
          std::int64_t number = 0;
          const char* const last = text.data() + text.size();
          const auto [end, error] = std::from_chars(text.data(), last, number);
          if (error != std::errc() || end != last || number < 1) return false;
          layout.*type.kept = number;
        } else if constexpr (requires { type.kept; }) {
          if (text != "true" && text != "false") return false;
          layout.*type.kept = text == "true";
        } else if constexpr (requires { type.words; }) {
          const auto word = std::find(type.words.begin(), type.words.end(), text);
          if (word == type.words.end()) return false;
          plan::ParallelismRequest request;
          type.give(request, static_cast<std::size_t>(word - type.words.begin()));
          type.apply(request, layout);
        } else {
          layout.schedule = text == kDefaultValue ? "" : text;
        }
        return true;
      },
      setting->type);
}

bool LayoutKey::IsUsed(const Layout& layout) const {
  if (setting->without.empty()) return true;
  return plan::DegreeOf(layout, kind) > 1 &&
         (key != "parallelism.context_inner" ||
          layout.context_method == model::ContextMethod::kHierarchical);
}

const std::vector<LayoutKey>& LayoutKeys() {
  static const std::vector<LayoutKey> kKeys = [] {
    std::vector<LayoutKey> keys;
    for (const SearchRow& row : SearchTable()) {
      if (row.level == SearchLevel::kLayout) keys.emplace_back(row.key);
    }
    return keys;
  }();
  return kKeys;
}

const LayoutKey* FindLayoutKey(std::string_view key) {
  const auto found = std::ranges::find(LayoutKeys(), key, &LayoutKey::key);
  return found == LayoutKeys().end() ? nullptr : &*found;
}

Layout LayoutOf(const plan::Plan& plan) {
  Layout layout{.data = plan.parallelism.data};
  for (const LayoutKey& key : LayoutKeys()) key.Take(layout, key.Text(plan.parallelism));
  return layout;
}

bool HaveSameStages(const Layout& a, const Layout& b) {
  const auto stages = [](const Layout& layout) {
    return std::tuple(layout.pipeline, layout.virtual_stages,
                      layout.account_for_embedding_in_pipeline_split,
                      layout.account_for_loss_in_pipeline_split);
  };
  return stages(a) == stages(b);
}

LayoutRules::LayoutRules(const LayoutQuestion& question)
    : question_(question), own_(question.scenario.plan.parallelism) {
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
    if (layout.schedule == own_.schedule) request.listed_schedule = own_.listed;
    request.virtual_stages = layout.virtual_stages;
    // Groups of any legal size. If any size is legal, one group of all micro-batches is.
    const std::int64_t micro_batches =
        *base_.global_batch_size / std::max<std::int64_t>(layout.data, 1);
    if (layout.schedule == plan::kInterleaved && GroupsMicroBatches() &&
        micro_batches >= layout.pipeline) {
      request.microbatch_group_size_per_vp_stage = micro_batches;
    }
    if (layout.account_for_embedding_in_pipeline_split) {
      request.account_for_embedding_in_pipeline_split = true;
    }
    if (layout.account_for_loss_in_pipeline_split) {
      request.account_for_loss_in_pipeline_split = true;
    }
    if (question_.own_stage_layers && HaveSameStages(layout, own_)) {
      request.stage_layers = own_.stage_layers;
    }
  }
  if (layout.context > 1) {
    if (plan::TraitsOf(question_.framework).context_parallel) {
      request.context_method = layout.context_method;
    }
    if (layout.context_inner > 1) request.context_inner = layout.context_inner;
  }
  if (layout.expert > 1) request.expert = layout.expert;
  if (plan::StyleOf(question_.framework).layers.divides_experts && has_experts_) {
    request.expert_tensor = layout.expert_tensor;
  }
  return request;
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

bool LayoutRules::Allowed(std::string_view kind) const {
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

// Expands the layout by the table's values for one key of the kind after the other. Keys without
// effect keep their values.
std::vector<Layout> LayoutRules::With(const Layout& start, std::string_view kind) const {
  std::vector<Layout> layouts = {start};
  for (const LayoutKey& row : LayoutKeys()) {
    if (row.kind != kind) continue;
    const SearchRow* const searched = FindSearchRow(row.key, question_.framework, question_.stage);
    const auto given = question_.given->find(row.key);
    // The times of a layer list hold only for its own degrees.
    const bool keeps_own = !facts_.has_ends && kind != "pipeline";
    std::vector<Layout> with;
    for (Layout& layout : layouts) {
      if (!row.IsUsed(layout) || (searched == nullptr && given == question_.given->end())) {
        with.push_back(std::move(layout));
        continue;
      }
      std::vector<std::string> values;
      if (given != question_.given->end()) {
        values = given->second;
      } else if (kind == row.setting->key && !Allowed(kind) && !keeps_own) {
        values = {"1"};
      } else {
        values = searched->values({.scenario = question_.scenario,
                                   .facts = facts_,
                                   .framework = question_.framework,
                                   .stage = question_.stage,
                                   .devices = question_.devices,
                                   .layout = layout});
      }
      for (const std::string& value : values) {
        Layout next = layout;
        if (row.Take(next, value)) with.push_back(std::move(next));
        if (value == kDefaultValue) SetFrameworksDefault(row, with.back());
      }
    }
    layouts = std::move(with);
  }
  return layouts;
}

std::vector<Layout> LayoutRules::WithoutMistakes(std::string_view kind) const {
  std::vector<Layout> layouts = With(Layout(), kind);
  std::erase_if(layouts,
                [&](const Layout& layout) { return !Broken(RequestOf(layout), false).empty(); });
  return layouts;
}

std::vector<Layout> LayoutRules::Experts(const Layout& layout) const {
  if (has_experts_) return With(layout, "expert");
  Layout own = layout;
  if (!facts_.has_ends) own.expert = own_.expert;
  return {own};
}

std::vector<Layout> LayoutRules::Legal() const {
  const std::vector<Layout> pipelines = WithoutMistakes("pipeline");
  std::vector<Layout> legal;
  for (const Layout& tensor : WithoutMistakes("tensor")) {
    for (const Layout& pipeline : pipelines) {
      Layout both = pipeline;
      both.tensor = tensor.tensor;
      both.sequence_parallel = tensor.sequence_parallel;
      for (Layout& context : With(both, "context")) {
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
