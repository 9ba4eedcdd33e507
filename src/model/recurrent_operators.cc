#include "src/model/recurrent_operators.h"

#include <algorithm>

#include "src/model/operator_name.h"

namespace stepcast::model {
namespace {

constexpr std::int64_t kSiluFlops = 5, kNormFlops = 7, kGateFlops = 6;

}  // namespace

std::int64_t RecurrentOperators::parts() const {
  return operators_.options_.tensor * operators_.options_.context.ranks;
}

std::int64_t RecurrentOperators::Columns(std::int64_t all) const {
  return all / operators_.options_.tensor;
}

LinearModule RecurrentOperators::Module(std::string_view name, std::int64_t out, bool part) const {
  return {name, Columns(out), part ? ModulePositions{.frozen = true} : find_(name), part};
}

Operand RecurrentOperators::Exchange(const Operand& x, const std::string& name, std::int64_t width,
                                     std::int64_t tokens) {
  const auto ranks = static_cast<int>(operators_.options_.context.ranks);
  const LayerTape::Collective all_to_all{
      .kind = CollectiveKind::kAllToAll, .axes = parallel::kContext, .type = operators_.element_};
  const Bytes bytes = operators_.Size(x), others(bytes.count() / ranks * (ranks - 1));
  const Operand y = operators_.Make(name + " output", width, tokens);
  const auto exchange = [=, this](bool forward, const std::string& pass, Value from, Value to) {
    const Value own = operators_.MakeIn(forward, pass + " pieces", bytes);
    const Value received = operators_.MakeIn(forward, pass + " received", others);
    operators_.RunIn(forward, operators_.Memory(pass + ".split", 0, bytes, bytes), {from}, {own});
    operators_.CommunicateIn(forward, all_to_all, own, received);
    const LayerTape::Piece kept(own, PieceRange{.piece = ranks - 1, .pieces = ranks});
    operators_.RunIn(forward, operators_.Memory(pass + ".order", 0, bytes, bytes), {kept, received},
                     {to});
  };
  exchange(true, name, x.value, y.value);
  tape_.OnBackward([=, this] {
    const Value dx = tape_.MakeGradient(x.value);
    exchange(false, name + ".dgrad", tape_.GradientOf(y.value), dx);
    tape_.Deliver(x.value, dx);
  });
  return y;
}

Operand RecurrentOperators::ToHeads(const Operand& x, std::string_view name) {
  const std::int64_t ranks = operators_.options_.context.ranks;
  if (ranks == 1) return x;
  return Exchange(x, Joined(name, ".to_heads"), x.width / ranks, x.tokens * ranks);
}

Operand RecurrentOperators::ToTokens(const Operand& x, std::string_view name) {
  const std::int64_t ranks = operators_.options_.context.ranks;
  if (ranks == 1) return x;
  return Exchange(x, Joined(name, ".to_tokens"), x.width * ranks, x.tokens / ranks);
}

Operand RecurrentOperators::Convolution(const Operand& x, std::string_view module,
                                        std::int64_t width, bool keeps) {
  const ModulePositions parameters = find_(module);
  const Bytes size = operators_.Size(x);
  const Bytes weights =
      operators_.BytesOfElements(x.width * (width + (parameters.biased() ? 1 : 0)));
  const std::int64_t flops = (2 * width + kSiluFlops) * LayerOperators::Elements(x);
  const Operand y = operators_.Make(Joined(module, " output"), x.width, x.tokens);
  if (keeps) tape_.Keep(x.value);
  tape_.Run(operators_.Memory(std::string(module), flops, size + weights, size), {x.value},
            {y.value}, parameters.all());
  tape_.OnBackward([=, this, name = std::string(module)] {
    const Value dy = tape_.GradientOf(y.value);
    const Value dx = tape_.MakeGradient(x.value);
    tape_.RunBackward(operators_.Memory(name + ".dgrad", 2 * flops, size + size + weights, size),
                      {dy, x.value}, {dx}, {}, parameters.all());
    if (!parameters.all().empty()) {
      tape_.RunBackward(operators_.Memory(name + ".wgrad", flops, size + size, weights),
                        {dy, x.value}, {}, parameters.all(), parameters.all());
    }
    tape_.Deliver(x.value, dx);
  });
  return y;
}

std::int64_t RecurrentOperators::Steps(std::int64_t chunk) const {
  const WorkOptions& options = operators_.options_;
  std::int64_t longest = options.documents.empty() ? options.sequence_length : 0;
  for (const SampleLength& document : options.documents) {
    longest = std::max(longest, document.tokens);
  }
  return (longest + chunk - 1) / chunk;
}

Kernel RecurrentOperators::Scan(std::string name, ScanKind scan, bool forward, std::int64_t chunk,
                                std::int64_t flops, Bytes read, Bytes written) const {
  return {.name = std::move(name),
          .kind = forward ? KernelKind::kScan : KernelKind::kScanGradient,
          .data_type = operators_.element_,
          .flops = flops,
          .model_flops = flops,
          .read = read,
          .written = written,
          .scan = scan,
          .steps = Steps(chunk)};
}

// One compiled block: norms of queries and keys, copies for value heads that share a key head, the
// decay and the strength.
RecurrentOperators::DeltaInputs RecurrentOperators::PrepareByHead(const Operand& convolved,
                                                                  const Operand& decay_beta) {
  const model::DeltaRule& delta = a_.delta;
  const std::int64_t tokens = convolved.tokens;
  const std::int64_t heads = delta.value_heads / parts();
  const auto elements = [&](std::int64_t width) {
    return operators_.BytesOfElements(tokens * width);
  };
  const Bytes normalised = elements(2 * delta.keys() / parts());
  const bool repeats = delta.value_heads > delta.key_heads;
  const Bytes of_heads = elements(heads * delta.value + (repeats ? 2 * heads * delta.key : 0));
  const Bytes strengths(2 * tokens * heads * kFp32Size);
  const Value keys = tape_.Make("linear_attn queries and keys, normalised", normalised);
  const Value values = tape_.Make("linear_attn queries, keys and values of heads", of_heads);
  const Value decays = tape_.Make("linear_attn decay and beta", strengths);
  for (const Value value : {keys, values, decays}) tape_.Keep(value);
  const Bytes taken = operators_.Size(convolved) + operators_.Size(decay_beta);
  const std::int64_t flops = kNormFlops * tokens * 2 * delta.keys() / parts();
  const ModulePositions a = find_(names_.delta_a), bias = find_(names_.delta_bias);
  std::vector<int> constants = a.all();
  for (const int position : bias.all()) constants.push_back(position);
  tape_.Run(
      operators_.Memory("linear_attn.prepare", flops, taken, normalised + of_heads + strengths),
      {convolved.value, decay_beta.value}, {keys, values, decays}, constants);
  tape_.RunOnBackward({operators_.Memory("linear_attn.prepare.dgrad", 2 * flops,
                                         normalised + normalised + of_heads + strengths, taken)},
                      {values, decays}, {convolved.value, decay_beta.value}, constants);
  DeltaInputs inputs{.values = {values, decays}, .bytes = of_heads + strengths};
  if (!repeats) inputs.bytes += normalised;
  return inputs;
}

Operand RecurrentOperators::ScanDelta(const DeltaInputs& inputs, std::int64_t tokens) {
  const model::DeltaRule& delta = a_.delta;
  const std::int64_t heads = delta.value_heads / parts(), chunk = delta.chunk;
  const std::int64_t k = delta.key, v = delta.value;
  const std::int64_t each = tokens * heads;
  const Operand y = operators_.Make("linear_attn.delta_rule output", heads * v, tokens);
  // For each chunk, the triangle of the keys' overlaps; by channel also the queries' scores.
  const std::int64_t blocks = delta.by_channel ? 2 : 1;
  const Bytes overlaps = operators_.BytesOfElements(blocks * each * chunk);
  const Value overlap = tape_.Make("linear_attn products of keys in a chunk", overlaps);
  tape_.Keep(overlap);
  tape_.Keep(y.value);
  for (const LayerTape::Piece& value : inputs.values) tape_.Keep(value.value);
  const Bytes made = operators_.Size(y);
  const ScanKind scan = delta.by_channel ? ScanKind::kDeltaByChannel : ScanKind::kDelta;
  const std::int64_t flops = each * (6 * k * v + 2 * chunk * (3 * k + 2 * v));
  const std::int64_t gradient_flops =
      each * (16 * k * v + 2 * chunk * (8 * k + 5 * v) + 4 * chunk * chunk);
  // The state at the beginning of each chunk is written and read again.
  const Bytes states = operators_.BytesOfElements(each / chunk * k * v);
  tape_.Run(Scan("linear_attn.delta_rule", scan, true, chunk, flops, inputs.bytes + states,
                 made + overlaps + states),
            inputs.values, {y.value, overlap});
  tape_.OnBackward([=, this] {
    const Pieces reads{tape_.GradientOf(y.value)};
    Pieces writes{tape_.MakeScratch(states)};
    for (const LayerTape::Piece& value : inputs.values) {
      writes.emplace_back(tape_.MakeGradient(value.value));
    }
    Kernel gradient =
        Scan("linear_attn.delta_rule.dgrad", scan, false, chunk, gradient_flops,
             inputs.bytes + made + overlaps + states + states, inputs.bytes + states + states);
    gradient.model_flops = 2 * flops;
    tape_.RunBackward(std::move(gradient), reads, writes);
    for (std::size_t i = 0; i < inputs.values.size(); ++i) {
      tape_.Deliver(inputs.values[i].value, writes[i + 1].value);
    }
  });
  return y;
}

Operand RecurrentOperators::GatedNorm(const Operand& y, const Operand& gate,
                                      std::string_view module) {
  const ModulePositions parameters = find_(module);
  const Bytes size = operators_.Size(y);
  const std::int64_t flops = (kNormFlops + kGateFlops) * LayerOperators::Elements(y);
  const Operand out = operators_.Make(Joined(module, " output"), y.width, y.tokens);
  tape_.Keep(y.value);
  tape_.Keep(gate.value);
  tape_.Run(operators_.Memory(std::string(module), flops, size + size, size), {y.value, gate.value},
            {out.value}, parameters.all());
  tape_.OnBackward([=, this, name = std::string(module)] {
    const Value gradient = tape_.GradientOf(out.value);
    const Value dy = tape_.MakeGradient(y.value), dz = tape_.MakeGradient(gate.value);
    tape_.RunBackward(
        operators_.Memory(name + ".dgrad", 2 * flops, size + size + size, size + size),
        {gradient, y.value, gate.value}, {dy, dz}, {}, parameters.all());
    if (parameters.weight >= 0) {
      operators_.RunPartGradients(
          operators_.Memory(name + ".wgrad", 2 * LayerOperators::Elements(y), size + size + size,
                            Bytes(kFp32Size)),
          {gradient, y.value}, {parameters.weight}, parameters);
    }
    tape_.Deliver(y.value, dy);
    tape_.Deliver(gate.value, dz);
  });
  return out;
}

// Queries, keys, values, per-channel decay and strength of Kimi delta attention, and the gate of
// its output.
RecurrentOperators::DeltaInputs RecurrentOperators::KimiInputs(const Operand& x) {
  const model::DeltaRule& delta = a_.delta;
  const std::vector<LinearModule> modules = {Module(names_.delta_query, delta.keys()),
                                             Module(names_.delta_key, delta.keys()),
                                             Module(names_.delta_value, delta.values())};
  std::vector<Operand> products;
  if (operators_.options_.fuses_products) {
    products = operators_.Linears(x, "self_attn.qkv_proj", modules, Outputs::kApart);
  } else {
    for (const LinearModule& module : modules) {
      products.push_back(operators_.Linear(x, module.name, module.out, module.parameters));
    }
  }
  const std::string_view convolutions[] = {names_.delta_query_conv, names_.delta_key_conv,
                                           names_.delta_value_conv};
  DeltaInputs inputs;
  for (std::size_t i = 0; i < products.size(); ++i) {
    const Operand convolved =
        Convolution(ToHeads(products[i], modules[i].name), convolutions[i], delta.conv, true);
    inputs.values.emplace_back(convolved.value);
    inputs.bytes += operators_.Size(convolved);
  }
  const auto low_rank = [&](std::string_view down, std::string_view up, std::int64_t rank,
                            std::int64_t out) {
    Operand narrow = x;
    if (rank > 0) narrow = operators_.Linear(x, down, rank, find_(down));
    return ToHeads(operators_.Linear(narrow, up, Columns(out), find_(up)), up);
  };
  // The decay's softplus and its constants are part of the scan.
  const Operand decay =
      low_rank(names_.delta_decay_down, names_.delta_decay_up, delta.decay_rank, delta.keys());
  const Operand beta = ToHeads(
      operators_.Linear(x, names_.delta_beta, Columns(delta.value_heads), find_(names_.delta_beta)),
      names_.delta_beta);
  gate_ = low_rank(names_.delta_gate_down, names_.delta_gate_up, delta.gate_rank, delta.values());
  const ModulePositions a = find_(names_.delta_a), bias = find_(names_.delta_bias);
  std::vector<int> constants = a.all();
  for (const int position : bias.all()) constants.push_back(position);
  if (!constants.empty()) {
    tape_.OnBackward([=, this] {
      tape_.RunBackward(
          operators_.Memory("linear_attn.decay.wgrad", LayerOperators::Elements(decay),
                            operators_.Size(decay), Bytes(delta.keys() * kFp32Size)),
          {tape_.GradientOf(decay.value)}, {}, constants, constants);
    });
  }
  for (const Operand& operand : {decay, beta}) {
    inputs.values.emplace_back(operand.value);
    inputs.bytes += operators_.Size(operand);
  }
  return inputs;
}

Operand RecurrentOperators::DeltaRule(const Operand& x) {
  const model::DeltaRule& delta = a_.delta;
  if (delta.by_channel) {
    const DeltaInputs inputs = KimiInputs(x);
    const Operand y = ScanDelta(inputs, gate_.tokens);
    return ToTokens(GatedNorm(y, gate_, names_.delta_norm), names_.delta_out);
  }
  const std::int64_t mixed = 2 * delta.keys() + delta.values();
  std::vector<LinearModule> modules = {Module(names_.delta_in, mixed),
                                       Module("linear_attn.gate", delta.values(), true)};
  const LinearModule strengths = Module(names_.delta_decay_beta, 2 * delta.value_heads);
  const bool one = operators_.options_.fuses_products;
  if (one) modules.push_back(strengths);
  std::vector<Operand> made = operators_.Linears(x, one ? "linear_attn.in_proj" : names_.delta_in,
                                                 modules, Outputs::kApart);
  if (!one) {
    made.push_back(operators_.Linear(x, strengths.name, strengths.out, strengths.parameters));
  }
  for (Operand& operand : made) operand = ToHeads(operand, "linear_attn.in_proj");
  // The decay and the strength are small; the product's output is kept for their gradient.
  tape_.Keep(made[2].value);
  const Operand convolved = Convolution(made[0], names_.delta_conv, delta.conv, true);
  const Operand y = ScanDelta(PrepareByHead(convolved, made[2]), convolved.tokens);
  return ToTokens(GatedNorm(y, made[1], names_.delta_norm), names_.delta_out);
}

Operand RecurrentOperators::StateSpace(const Operand& x) {
  const model::StateSpace& state = a_.state_space;
  // One tensor, whose gradient several kernels write in place.
  const std::vector<LinearModule> modules = {Module(names_.state_in, state.inner()),
                                             Module("mixer.convolved", state.convolved(), true),
                                             Module("mixer.time_step", state.heads, true)};
  std::vector<Operand> made = operators_.Linears(x, names_.state_in, modules, Outputs::kSideBySide);
  for (Operand& operand : made) operand = ToHeads(operand, names_.state_in);
  const Operand &gate = made[0], &convolved = made[1], &time = made[2];
  const Operand mixed = Convolution(convolved, names_.state_conv, state.conv, true);
  const std::int64_t tokens = mixed.tokens, heads = state.heads / parts();
  const std::int64_t groups = std::max<std::int64_t>(1, state.groups / parts());
  const Operand y = operators_.Make("mixer.scan output", heads * state.head, tokens);
  tape_.Keep(time.value);
  const std::int64_t flops =
      tokens * (heads * (4 * state.head * state.state + 2 * state.chunk * state.head) +
                groups * 2 * state.chunk * state.state);
  const Bytes states(std::max<std::int64_t>(1, tokens / state.chunk) * heads * state.head *
                     state.state * kFp32Size);
  const Bytes taken = operators_.Size(mixed) + operators_.Size(time),
              made_bytes = operators_.Size(y);
  std::vector<int> constants;
  for (const std::string_view module : {names_.state_a, names_.state_d, names_.state_bias}) {
    for (const int position : find_(module).all()) constants.push_back(position);
  }
  tape_.Run(Scan("mixer.scan", ScanKind::kStateSpace, true, state.chunk, flops, taken + states,
                 made_bytes + states),
            {mixed.value, time.value}, {y.value}, constants);
  tape_.OnBackward([=, this] {
    // The convolution's output and the states are computed again.
    const Value again = tape_.MakeScratch(operators_.Size(mixed));
    const Value states_again = tape_.MakeScratch(states);
    tape_.RunBackward(
        operators_.Memory(Joined(names_.state_conv, ".again"),
                          (2 * state.conv + kSiluFlops) * LayerOperators::Elements(mixed),
                          operators_.Size(mixed), operators_.Size(mixed)),
        {convolved.value}, {again});
    const Value d_mixed = tape_.MakeGradient(mixed.value), d_time = tape_.MakeGradient(time.value);
    Kernel gradient =
        Scan("mixer.scan.dgrad", ScanKind::kStateSpace, false, state.chunk, flops / 2 * 5,
             taken + made_bytes + states + states, taken + states + states);
    gradient.model_flops = 2 * flops;
    tape_.RunBackward(std::move(gradient), {tape_.GradientOf(y.value), again, time.value},
                      {d_mixed, d_time, states_again}, constants, constants);
    tape_.Deliver(mixed.value, d_mixed);
    tape_.Deliver(time.value, d_time);
  });
  return ToTokens(GatedNorm(y, gate, names_.state_norm), names_.state_out);
}

}  // namespace stepcast::model
