#include "src/scenario/model_experts.h"

#include <cstdint>
#include <string_view>

#include "fmt/format.h"

namespace stepcast::scenario {
namespace {

using model::RouterScores;

// Of a model that has experts.
constexpr std::string_view kKeysOfExperts[] = {"num_experts_per_tok",
                                               "moe_intermediate_size",
                                               "shared_expert_intermediate_size",
                                               "first_k_dense_replace",
                                               "decoder_sparse_step",
                                               "scoring_func",
                                               "norm_topk_prob",
                                               "n_group",
                                               "topk_group",
                                               "balancing_bias",
                                               "shared_expert_gate",
                                               "router_bias",
                                               "experts_bias"};

// Nothing is passed over in silence: without experts these say something of what is not there.
void RefuseWithoutExperts(MappingReader& reader) {
  for (const std::string_view key : kKeysOfExperts) {
    if (!reader.ReadNode(key, Need::kOptional, "a value")) continue;
    reader.Report(key, "model.impossible",
                  fmt::format("a model without experts has no '{}': num_experts is absent", key),
                  "write num_experts, or leave it out");
  }
}

}  // namespace

void ReadExperts(MappingReader& reader, model::Architecture& a) {
  const auto count = reader.ReadInteger("num_experts", Need::kOptional, {1, model::kMostExperts});
  if (!reader.Has("num_experts")) return RefuseWithoutExperts(reader);
  model::Experts& experts = a.experts;
  const auto integer = [&](std::string_view key, std::int64_t least, std::int64_t absent) {
    return reader.ReadInteger(key, Need::kOptional, {least, model::kMostMatrix}).value_or(absent);
  };
  const auto boolean = [&](std::string_view key, bool absent) {
    return reader.ReadBoolean(key, Need::kOptional).value_or(absent);
  };
  experts.count = count.value_or(1);
  experts.per_token =
      reader.ReadInteger("num_experts_per_tok", Need::kRequired, {1, model::kMostExperts})
          .value_or(1);
  experts.feed_forward = integer("moe_intermediate_size", 1, a.feed_forward);
  experts.shared_feed_forward =
      integer("shared_expert_intermediate_size", 0, experts.shared_feed_forward);
  experts.leading_dense = integer("first_k_dense_replace", 0, experts.leading_dense);
  experts.every = integer("decoder_sparse_step", 1, experts.every);
  experts.scores =
      reader
          .ReadWord<RouterScores>("scoring_func", Need::kOptional,
                                  {{"softmax_of_chosen", RouterScores::kSoftmaxOfChosen},
                                   {"softmax", RouterScores::kSoftmax},
                                   {"sigmoid", RouterScores::kSigmoid}})
          .value_or(experts.scores);
  experts.normalized_weights = boolean("norm_topk_prob", experts.normalized_weights);
  experts.groups = integer("n_group", 1, experts.groups);
  experts.groups_per_token = integer("topk_group", 1, experts.groups_per_token);
  experts.balancing_bias = boolean("balancing_bias", experts.balancing_bias);
  experts.shared_gate = boolean("shared_expert_gate", experts.shared_gate);
  experts.router_bias = boolean("router_bias", experts.router_bias);
  experts.bias = boolean("experts_bias", experts.bias);
}

}  // namespace stepcast::scenario
