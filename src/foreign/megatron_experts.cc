#include <algorithm>
#include <string>
#include <string_view>

#include "src/foreign/readers.h"

namespace stepcast::foreign {
namespace {

using Pattern = std::vector<bool>;

constexpr std::size_t kMostLayers = 10'000;
constexpr int kMostNesting = 20;

class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text) {}

  std::optional<Pattern> Run() {
    auto pattern = Sum(0);
    if (at_ != text_.size() || (pattern && pattern->empty())) return std::nullopt;
    return pattern;
  }

 private:
  bool Take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::optional<Pattern> Sum(int depth) {
    auto sum = Product(depth);
    while (sum && Take('+')) {
      const auto more = Product(depth);
      if (!more || sum->size() + more->size() > kMostLayers) return std::nullopt;
      sum->insert(sum->end(), more->begin(), more->end());
    }
    return sum;
  }

  std::optional<Pattern> Product(int depth) {
    auto one = Take('[') ? List() : Nested(depth);
    while (one && Take('*')) {
      const auto times = Count();
      if (!times || one->size() * *times > kMostLayers) return std::nullopt;
      Pattern all;
      for (std::size_t i = 0; i < *times; ++i) all.insert(all.end(), one->begin(), one->end());
      one = std::move(all);
    }
    return one;
  }

  std::optional<Pattern> Nested(int depth) {
    if (depth == kMostNesting || !Take('(')) return std::nullopt;
    auto inner = Sum(depth + 1);
    return Take(')') ? inner : std::nullopt;
  }

  std::optional<Pattern> List() {
    Pattern list;
    while (list.size() < kMostLayers) {
      if (Take('1')) {
        list.push_back(true);
      } else if (Take('0')) {
        list.push_back(false);
      } else {
        return std::nullopt;
      }
      if (Take(']')) return list;
      if (!Take(',')) return std::nullopt;
    }
    return std::nullopt;
  }

  std::optional<std::size_t> Count() {
    const std::size_t begin = at_;
    std::size_t count = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && count <= kMostLayers) {
      count = count * 10 + static_cast<std::size_t>(text_[at_++] - '0');
    }
    return at_ == begin ? std::nullopt : std::optional(count);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::vector<bool>> ParseLayerPattern(const Value& value) {
  std::string text;
  if (value.kind == Value::Kind::kList) {
    for (const std::string& item : value.items) text += (text.empty() ? "[" : ",") + item;
    text += "]";
  } else {
    text = value.text;
  }
  std::erase_if(text, [](char c) { return c == ' ' || c == '\'' || c == '"'; });
  return PatternParser(text).Run();
}

namespace {

// Reads which blocks have experts: every N-th, or a Python list of zeros and ones.
void ReadLayersOfExperts(Reading& reading) {
  const std::string_view option = "moe-layer-freq";
  const Setting* stated = reading.Stated(option);
  if (stated == nullptr) return;
  const std::int64_t layers = reading.Integer("num-layers").value_or(0);
  if (const auto every = reading.Integer(option); every && stated->value.Integer()) {
    if (*every > 1) {
      reading.Set("model.decoder_sparse_step", *every, option,
                  "blocks are counted from the first block of the model");
    }
    return;
  }
  const auto pattern = ParseLayerPattern(stated->value);
  if (!pattern || static_cast<std::int64_t>(pattern->size()) != layers ||
      !std::is_sorted(pattern->begin(), pattern->end())) {
    reading.Omit(option, "every block has experts");
    return;
  }
  const auto dense = std::count(pattern->begin(), pattern->end(), false);
  if (dense > 0) reading.Set("model.first_k_dense_replace", dense, option);
}

// Reads how tokens are sent to the ranks of their experts.
void ReadDispatcher(Reading& reading) {
  const std::string_view key = "experts.dispatcher";
  const std::string_view option = "moe-token-dispatcher-type";
  const std::string type = reading.Text(option);
  const std::string backend = reading.Text("moe-flex-dispatcher-backend");
  if (reading.IsOn("use-turbo-deepep")) {
    reading.Set(key, "deepep", "use-turbo-deepep");
  } else if (reading.IsOn("moe-enable-deepep")) {
    reading.Set(key, "deepep", "moe-enable-deepep");
  } else if (type == "flex" && (backend == "deepep" || backend == "hybridep")) {
    reading.Set(key, backend, "moe-flex-dispatcher-backend");
  } else if (type == "alltoall" || type == "alltoall_seq") {
    reading.Set(key, "all_to_all", option);
  } else if (type == "allgather") {
    reading.Set(key, "all_gather", option);
  } else {
    reading.Omit(option, "NCCL's all-to-all sends tokens to experts");
  }
}

}  // namespace

void ReadExpertsOfModel(Reading& reading) {
  reading.SetInteger("model.num_experts", "num-experts");
  reading.SetInteger("model.num_experts_per_tok", "moe-router-topk");
  reading.SetInteger("model.moe_intermediate_size", "moe-ffn-hidden-size");
  reading.SetInteger("model.shared_expert_intermediate_size",
                     "moe-shared-expert-intermediate-size");
  ReadLayersOfExperts(reading);
  const std::string scores = reading.Text("moe-router-score-function");
  const bool before = reading.IsOn("moe-router-pre-softmax");
  reading.Set(
      "model.scoring_func",
      scores == "sigmoid" ? "sigmoid"
      : before            ? "softmax"
                          : "softmax_of_chosen",
      before && scores != "sigmoid" ? "moe-router-pre-softmax" : "moe-router-score-function");
  if (before && scores != "sigmoid") {
    reading.Set("model.norm_topk_prob", "false", "moe-router-pre-softmax");
  }
  reading.SetInteger("model.n_group", "moe-router-num-groups");
  reading.SetInteger("model.topk_group", "moe-router-group-topk");
  reading.Set("model.balancing_bias", reading.IsOn("moe-router-enable-expert-bias"),
              "moe-router-enable-expert-bias");
}

void ReadHowExpertsRun(Reading& reading) {
  ReadDispatcher(reading);
  // Grouped products run in Transformer Engine, on one stream each. With grouped tensors, and
  // before Transformer Engine, they are one kernel.
  const std::string_view one_kernel = reading.IsOn("moe-use-grouped-tensor")
                                          ? "moe-use-grouped-tensor"
                                          : "moe-use-legacy-grouped-gemm";
  if (reading.IsOn(one_kernel)) {
    reading.Set("experts.products", "grouped", one_kernel);
  } else {
    const std::string_view grouped = "moe-grouped-gemm";
    reading.Set("experts.products", reading.IsOn(grouped) ? "streams" : "looped", grouped);
  }
  reading.Set("experts.fused_router", reading.IsOn("moe-router-fusion"), "moe-router-fusion");
  reading.Set("experts.fused_permutation", reading.IsOn("moe-permute-fusion"),
              "moe-permute-fusion");
  const std::string type = reading.Text("moe-router-dtype");
  if (type == "fp32" || type == "bf16") {
    reading.Set("experts.router_dtype", type, "moe-router-dtype");
  } else if (!type.empty()) {
    reading.Omit("moe-router-dtype", "routers compute in the data type of the model");
  }
  const auto capacity = reading.Get("moe-expert-capacity-factor");
  if (capacity && capacity->Number().value_or(-1) > 0) {
    reading.Set("experts.capacity_factor", ScenarioWords(*capacity), "moe-expert-capacity-factor");
    if (reading.IsOn("moe-pad-expert-input-to-capacity")) {
      reading.Set("experts.pad_to_capacity", "true", "moe-pad-expert-input-to-capacity");
    }
  }
  if (reading.IsOn("overlap-moe-expert-parallel-comm")) {
    reading.Set("experts.overlap_communication", "true", "overlap-moe-expert-parallel-comm");
    if (reading.IsOn("delay-wgrad-compute")) {
      reading.Set("experts.delay_weight_gradients", "true", "delay-wgrad-compute");
    }
  }
  const std::string_view shared = "moe-shared-expert-overlap";
  const bool unknown = reading.Stated("num-experts") == nullptr;  // the model is named
  if (reading.IsOn(shared) &&
      (unknown || reading.Stated("moe-shared-expert-intermediate-size") != nullptr)) {
    if (reading.Integer("tensor-model-parallel-size").value_or(1) > 1) {
      reading.Omit(shared, "shared experts are tensor-parallel and run before the router");
    } else {
      reading.Set("experts.overlap_shared_experts", "true", shared);
    }
  }
}

}  // namespace stepcast::foreign
