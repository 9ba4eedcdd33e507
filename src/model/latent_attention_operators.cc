#include "src/model/latent_attention_operators.h"

#include <string>
#include <utility>
#include <vector>

#include "src/model/operator_name.h"

namespace stepcast::model {
namespace {

// Floating-point operations per rotated element.
constexpr std::int64_t kTurnFlops = 3;

// The second of two modules that form one product with one weight, which is the first module's.
LinearModule Also(std::string_view name, std::int64_t out, bool frozen) {
  return {name, out, {.frozen = frozen}};
}

}  // namespace

LatentAttentionOperators::LatentAttentionOperators(LayerOperators& operators,
                                                   const Architecture& architecture,
                                                   const Modules& modules, std::string_view core)
    : operators_(operators),
      tape_(*operators.tape_),
      a_(architecture),
      latent_(architecture.latent),
      modules_(modules),
      core_(core) {}

Operand LatentAttentionOperators::Norm(const Operand& x, const LinearModule& norm) {
  return operators_.Norm(x, norm.name, Normalization::kRmsNorm, norm.parameters);
}

Operand LatentAttentionOperators::QueryVector(const Operand& x) {
  query_vector_ = x;
  if (latent_.query_rank == 0) return x;
  LinearModule down = modules_.query_down;
  down.parameters.of_part = operators_.options_.sequence_parallel;
  query_vector_ =
      Norm(operators_.Linear(x, down.name, down.out, down.parameters), modules_.query_norm);
  return query_vector_;
}

std::array<Operand, 2> LatentAttentionOperators::KeyVector(const Operand& x) {
  LinearModule down = modules_.kv_down;
  down.parameters.of_part = operators_.options_.sequence_parallel;
  down.out = latent_.kv_rank;
  const std::vector<Operand> narrow = operators_.Linears(
      x, down.name,
      {down,
       Also("self_attn.kv_a_proj_with_mqa.rotary", latent_.rotary_head, down.parameters.frozen)},
      Outputs::kApart);
  // One tensor holds both parts; the norm keeps the other one.
  tape_.Keep(narrow[1].value);
  return {Norm(narrow[0], modules_.kv_norm), narrow[1]};
}

std::array<Operand, 3> LatentAttentionOperators::QueryKeyValue(const Operand& x) {
  // Queries first, as the modules are called.
  const Operand query_source = QueryVector(x);
  tape_.BeginModule(Module::kLatentUp);
  const std::array<Operand, 2> queries = Queries(query_source);
  tape_.EndModule();

  const std::array<Operand, 2> vector = KeyVector(x);
  tape_.BeginModule(Module::kLatentUp);
  const std::array<Operand, 3> heads = Heads(queries, vector[0], vector[1]);
  tape_.EndModule();
  return heads;
}

Operand LatentAttentionOperators::HeadProduct(const Operand& x, const std::string& name,
                                              std::int64_t in, std::int64_t out, std::int64_t kept,
                                              bool later) {
  const ModulePositions& parameters = modules_.kv_up.parameters;
  const Operand y = operators_.Make(name + " output", heads() * (out + kept), x.tokens);
  const auto product = [&](const std::string& called, std::int64_t m, std::int64_t n,
                           std::int64_t k, ProductLayout layout) {
    Kernel kernel = operators_.Gemm(called, m, n, k, layout);
    kernel.data_type = operators_.element_;
    kernel.batch = heads();
    kernel.flops *= heads();
    kernel.model_flops *= heads();
    kernel.read = operators_.BytesOfElements(heads() * (m * k + k * n));
    kernel.written = operators_.BytesOfElements(heads() * m * n);
    return kernel;
  };
  tape_.Keep(x.value);
  tape_.Run(product(name, x.tokens, out, in, ProductLayout::kForward), {x.value}, {y.value},
            parameters.all());
  const Kernel input = product(name + ".dgrad", x.tokens, in, out, ProductLayout::kInputGradient);
  const Kernel weight = product(name + ".wgrad", out, in, x.tokens, ProductLayout::kWeightGradient);
  tape_.OnBackward([=, this] {
    const Value gradient = tape_.GradientOf(y.value);
    const Value dx = tape_.MakeGradient(x.value);
    tape_.RunBackward(input, {gradient}, {dx}, {}, parameters.all());
    if (parameters.weight >= 0) {
      tape_.RunBackward(weight, {gradient, x.value}, {},
                        later ? std::vector<int>() : parameters.all(), parameters.all());
    }
    tape_.Deliver(x.value, dx);
  });
  return y;
}

std::array<Operand, 3> LatentAttentionOperators::AbsorbedQueryKeyValue(const Operand& x) {
  const Operand source = operators_.EnterColumns(QueryVector(x), "q_b");
  tape_.BeginModule(Module::kLatentUp);
  LinearModule up = modules_.query_up;
  up.out = heads() * a_.head_size;
  const Operand query = TurnedInPlace(operators_.Linear(source, up.name, up.out, up.parameters));
  const Operand absorbed =
      HeadProduct(query, model::Joined(core_, ".absorb_query"), latent_.plain_head, latent_.kv_rank,
                  latent_.rotary_head, false);
  tape_.EndModule();
  const std::array<Operand, 2> vector = KeyVector(x);
  // The core reads it, not a product that could take the ranks' parts as they come.
  const Operand latent = operators_.AllTokens(vector[0], "kv_b");
  const Operand turned =
      operators_.Rotary(operators_.AllTokens(vector[1], "self_attn.kv_a_proj_with_mqa.rotary"),
                        "self_attn.rotary_key", latent_.rotary_head);
  return {absorbed, operators_.Join(latent, turned, "self_attn.join_key"), latent};
}

Operand LatentAttentionOperators::ValuesOf(const Operand& y) {
  return HeadProduct(y, model::Joined(core_, ".values_up"), latent_.kv_rank, latent_.value_head, 0,
                     true);
}

std::array<Operand, 3> LatentAttentionOperators::Heads(const std::array<Operand, 2>& queries,
                                                       const Operand& normalised,
                                                       const Operand& turned_part) {
  const bool frozen = modules_.kv_down.parameters.frozen;
  const Operand vector = operators_.EnterColumns(normalised, "kv_b");
  Operand shared = operators_.AllTokens(turned_part, "self_attn.kv_a_proj_with_mqa.rotary");

  const std::int64_t plain = heads() * latent_.plain_head, values = heads() * latent_.value_head;
  if (!unfused()) {
    const Operand query = TurnedInPlace(queries[0]);
    const Operand both =
        operators_.Linear(vector, modules_.kv_up.name, plain + values, modules_.kv_up.parameters);
    const auto [key, value] = KeysAndValues(both, shared);
    return {query, key, value};
  }
  LinearModule up = modules_.kv_up;
  up.out = plain;
  const std::vector<Operand> both = operators_.Linears(
      vector, up.name, {up, Also("self_attn.kv_b_proj.value", values, frozen)}, Outputs::kApart);
  // One tensor holds keys and values, and attention keeps it.
  tape_.Keep(both[0].value);
  const Operand turned =
      operators_.Rotary(queries[1], "self_attn.rotary_query", latent_.rotary_head);
  shared = operators_.Rotary(shared, "self_attn.rotary_key", latent_.rotary_head);
  return {Joined(queries[0], turned, ".join_query"), Joined(both[0], shared, ".join_key"), both[1]};
}

std::array<Operand, 2> LatentAttentionOperators::Queries(const Operand& x) {
  const Operand whole = operators_.EnterColumns(x, "q_b");
  LinearModule up = modules_.query_up;
  if (!unfused()) {
    up.out = heads() * a_.head_size;
    return {operators_.Linear(whole, up.name, up.out, up.parameters), {}};
  }
  up.out = heads() * latent_.plain_head;
  const std::vector<Operand> parts = operators_.Linears(
      whole, up.name,
      {up, Also("self_attn.query.rotary", heads() * latent_.rotary_head, up.parameters.frozen)},
      Outputs::kApart);
  return {parts[0], parts[1]};
}

Operand LatentAttentionOperators::TurnedInPlace(const Operand& query) {
  const std::int64_t turned = query.tokens * heads() * latent_.rotary_head;
  const Bytes bytes = operators_.BytesOfElements(turned);
  const Bytes table = operators_.BytesOfElements(2 * operators_.positions_ * latent_.rotary_head);
  const auto kernel = [&](std::string_view suffix) {
    return operators_.Memory(model::Joined(core_, suffix), kTurnFlops * turned, bytes + table,
                             bytes);
  };
  tape_.Run(kernel(".rotary_query"), {query.value}, {query.value});
  tape_.OnBackward([=, this, backward = kernel(".rotary_query.dgrad")] {
    const Value gradient = tape_.GradientOf(query.value);
    tape_.RunBackward(backward, {gradient}, {gradient});
  });
  return query;
}

std::array<Operand, 2> LatentAttentionOperators::KeysAndValues(const Operand& both,
                                                               const Operand& shared) {
  const Operand key =
      operators_.Make(model::Joined(core_, " key"), heads() * a_.head_size, both.tokens);
  const Operand value =
      operators_.Make(model::Joined(core_, " value"), heads() * latent_.value_head, both.tokens);
  const Bytes made = operators_.Size(key) + operators_.Size(value);
  const Bytes taken = operators_.Size(both) + operators_.Size(shared);
  const std::int64_t flops = kTurnFlops * LayerOperators::Elements(shared);
  const Bytes table = operators_.BytesOfElements(2 * operators_.positions_ * latent_.rotary_head);
  tape_.RunBothWays(
      operators_.Memory(model::Joined(core_, ".rotary_key_value"), flops, taken + table, made),
      {operators_.Memory(model::Joined(core_, ".rotary_key_value.dgrad"), heads() * flops,
                         made + table, taken)},
      {both.value, shared.value}, {key.value, value.value});
  return {key, value};
}

Operand LatentAttentionOperators::Joined(const Operand& plain, const Operand& turned,
                                         std::string_view suffix) {
  const std::string name = model::Joined(core_, suffix);
  const Operand y = operators_.Make(name + " output", heads() * a_.head_size, plain.tokens);
  tape_.Run(operators_.Memory(name, 0, operators_.Size(plain) + operators_.Size(turned),
                              operators_.Size(y)),
            {plain.value, turned.value}, {y.value});
  tape_.OnBackward([=, this] {
    // These are parts of one gradient. The part that all heads share is the sum over heads.
    const Value gradient = tape_.GradientOf(y.value);
    tape_.Deliver(plain.value, gradient);
    if (turned.width > latent_.rotary_head || heads() == 1) {
      tape_.Deliver(turned.value, gradient);
      return;
    }
    const Value sum = tape_.MakeGradient(turned.value);
    const Bytes parts(operators_.Size(turned).count() * heads());
    tape_.RunBackward(operators_.Memory(name + ".dgrad", heads() * LayerOperators::Elements(turned),
                                        parts, operators_.Size(turned)),
                      {gradient}, {sum});
    tape_.Deliver(turned.value, sum);
  });
  return y;
}

}  // namespace stepcast::model
