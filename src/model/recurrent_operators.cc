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

// The rows are a copy of some of x's rows; in backward, their gradient returns and is added to the
// gradients of these rows.
std::optional<Operand> RecurrentOperators::RowsOfPrevious(const Operand& x, std::string_view module,
                                                          std::int64_t rows) {
  const auto ranks = static_cast<int>(operators_.options_.context.ranks);
  if (ranks == 1) return std::nullopt;
  const std::int64_t tokens = operators_.options_.micro_batch_size * rows;
  const Operand received = operators_.Make(Joined(module, ".rows received"), x.width, tokens);
  const Bytes bytes = operators_.Size(received);
  const auto message = [=, this](int distance) {
    return LayerTape::Collective{.kind = CollectiveKind::kSendRecv,
                                 .axes = parallel::kContext,
                                 .type = operators_.element_,
                                 .distance = distance};
  };
  const Value own =
      tape_.RunTo(Joined(module, ".last rows"),
                  operators_.Memory(Joined(module, ".last_rows"), 0, bytes, bytes), {x.value});
  tape_.Communicate(message(1), own, received.value);
  tape_.Keep(received.value);
  tape_.OnBackward([=, this, name = std::string(module)] {
    const Value returned = tape_.MakeScratch(bytes);
    tape_.CommunicateBackward(message(ranks - 1), tape_.GradientOf(received.value), returned);
    const Value dx = tape_.GradientOf(x.value);
    tape_.RunBackward(operators_.Memory(name + ".last_rows.add", 0, bytes + bytes, bytes),
                      {returned, dx}, {dx});
  });
  return received;
}

Operand RecurrentOperators::Convolution(const Operand& x, std::string_view module,
                                        std::int64_t width, bool activated,
                                        const std::optional<Operand>& of_previous) {
  const ModulePositions parameters = find_(module);
  const Bytes size = operators_.Size(x);
  const Bytes weights =
      operators_.BytesOfElements(x.width * (width + (parameters.biased() ? 1 : 0)));
  const std::int64_t flops =
      (2 * width + (activated ? kSiluFlops : 0)) * LayerOperators::Elements(x);
  const Operand y = operators_.Make(Joined(module, " output"), x.width, x.tokens);
  const Bytes previous = of_previous ? operators_.Size(*of_previous) : Bytes();
  Pieces reads{x.value};
  if (of_previous) reads.emplace_back(of_previous->value);
  tape_.Keep(x.value);
  tape_.Run(operators_.Memory(std::string(module), flops, size + previous + weights, size), reads,
            {y.value}, parameters.all());
  tape_.OnBackward([=, this, name = std::string(module)] {
    Pieces inputs{tape_.GradientOf(y.value)}, gradients{tape_.MakeGradient(x.value)};
    inputs.insert(inputs.end(), reads.begin(), reads.end());
    if (of_previous) gradients.emplace_back(tape_.MakeGradient(of_previous->value));
    tape_.RunBackward(operators_.Memory(name + ".dgrad", 2 * flops,
                                        size + size + previous + weights, size + previous),
                      inputs, gradients, {}, parameters.all());
    if (!parameters.all().empty()) {
      tape_.RunBackward(operators_.Memory(name + ".wgrad", flops, size + size + previous, weights),
                        inputs, {}, parameters.all(), parameters.all());
    }
    for (std::size_t i = 0; i < reads.size(); ++i) {
      tape_.Deliver(reads[i].value, gradients[i].value);
    }
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

void RecurrentOperators::RunGradients(Kernel kernel, const Pieces& reads, const Pieces& inputs,
                                      Bytes scratch, const std::vector<int>& constants) {
  Pieces written;
  if (scratch > Bytes()) written.emplace_back(tape_.MakeScratch(scratch));
  const std::size_t first = written.size();
  for (const LayerTape::Piece& input : inputs) {
    written.emplace_back(tape_.MakeGradient(input.value));
  }
  tape_.RunBackward(std::move(kernel), reads, written, constants, constants);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    tape_.Deliver(inputs[i].value, written[first + i].value);
  }
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
  const std::vector<int> constants = Constants({names_.delta_a, names_.delta_bias});
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
    Kernel gradient =
        Scan("linear_attn.delta_rule.dgrad", scan, false, chunk, gradient_flops,
             inputs.bytes + made + overlaps + states + states, inputs.bytes + states + states);
    gradient.model_flops = 2 * flops;
    RunGradients(std::move(gradient), {tape_.GradientOf(y.value)}, inputs.values, states, {});
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
        Convolution(ToHeads(products[i], modules[i].name), convolutions[i], delta.conv);
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
  const std::vector<int> constants = Constants({names_.delta_a, names_.delta_bias});
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
  const Operand convolved = Convolution(made[0], names_.delta_conv, delta.conv);
  const Operand y = ScanDelta(PrepareByHead(convolved, made[2]), convolved.tokens);
  return ToTokens(GatedNorm(y, made[1], names_.delta_norm), names_.delta_out);
}

std::vector<int> RecurrentOperators::Constants(
    std::initializer_list<std::string_view> modules) const {
  std::vector<int> positions;
  for (const std::string_view module : modules) {
    for (const int position : find_(module).all()) positions.push_back(position);
  }
  return positions;
}

Operand RecurrentOperators::ScanChunks(const ChunkedScan& scan, const std::vector<Operand>& inputs,
                                       const std::vector<int>& constants,
                                       const std::function<Value()>& first_again) {
  const std::int64_t tokens = inputs.front().tokens;
  const Operand y = operators_.Make(Joined(scan.name, " output"), scan.heads * scan.head, tokens);
  const std::int64_t flops =
      tokens * (scan.heads * (4 * scan.head * scan.state + 2 * scan.chunk * scan.head) +
                scan.groups * 2 * scan.chunk * scan.state);
  const Bytes states(std::max<std::int64_t>(1, tokens / scan.chunk) * scan.heads * scan.head *
                     scan.state * kFp32Size);
  Pieces reads;
  Bytes taken;
  for (const Operand& input : inputs) {
    if (!reads.empty() || !first_again) tape_.Keep(input.value);
    reads.emplace_back(input.value);
    taken += operators_.Size(input);
  }
  const Bytes made = operators_.Size(y);
  tape_.Run(Scan(std::string(scan.name), ScanKind::kStateSpace, true, scan.chunk, flops,
                 taken + states, made + states),
            reads, {y.value}, constants);
  tape_.OnBackward([=, this] {
    Kernel gradient = Scan(Joined(scan.name, ".dgrad"), ScanKind::kStateSpace, false, scan.chunk,
                           flops / 2 * 5, taken + made + states + states, taken + states + states);
    gradient.model_flops = 2 * flops;
    Pieces needed{tape_.GradientOf(y.value)};
    needed.insert(needed.end(), reads.begin(), reads.end());
    if (first_again) needed[1] = first_again();
    // The states are computed again.
    RunGradients(std::move(gradient), needed, reads, states, constants);
  });
  return y;
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
  const Operand mixed = Convolution(convolved, names_.state_conv, state.conv);
  const Bytes size = operators_.Size(mixed);
  const Kernel again = operators_.Memory(
      Joined(names_.state_conv, ".again"),
      (2 * state.conv + kSiluFlops) * LayerOperators::Elements(mixed), size, size);
  const Operand y =
      ScanChunks({.name = "mixer.scan",
                  .heads = state.heads / parts(),
                  .head = state.head,
                  .state = state.state,
                  .groups = std::max<std::int64_t>(1, state.groups / parts()),
                  .chunk = state.chunk},
                 {mixed, time}, Constants({names_.state_a, names_.state_d, names_.state_bias}),
                 [=, this] { return tape_.RunToScratch(again, {convolved.value}); });
  const Operand gated = state.norm ? GatedNorm(y, gate, names_.state_norm)
                                   : operators_.GatedSilu(gate, y, "mixer.gate");
  return ToTokens(gated, names_.state_out);
}

// The two gates and the input are views of one output.
Operand RecurrentOperators::ShortConvolution(const Operand& x) {
  const std::int64_t width = a_.short_conv.conv;
  const std::vector<Operand> made = operators_.Linears(
      x, names_.short_in,
      {Module(names_.short_in, a_.hidden), Module("conv.out_gate", a_.hidden, true),
       Module("conv.input", a_.hidden, true)},
      Outputs::kApart);
  const Operand gated = operators_.Multiply(made[0], made[2], "conv.gate");
  const Operand mixed = Convolution(gated, names_.short_conv, width, false,
                                    RowsOfPrevious(gated, names_.short_conv, width - 1));
  return operators_.Multiply(made[1], mixed, "conv.out_gate.product");
}

// The gate, B, C and, without norms, the scan's other inputs are parts of larger tensors. Without
// norms, the convolution and all that follows are one autograd function, which computes the
// convolution, the time steps and the gated output again.
Operand RecurrentOperators::SelectiveScan(const Operand& x) {
  const model::SelectiveScan& scan = a_.selective_scan;
  const auto restored = [&](const auto& run) {
    if (!scan.norms) tape_.BeginRestored();
    const Operand made = run();
    tape_.EndRestored();
    return made;
  };
  const std::vector<Operand> made = operators_.Linears(
      x, names_.state_in,
      {Module(names_.state_in, scan.inner), Module("mixer.gate", scan.inner, true)},
      Outputs::kSideBySide);
  const Operand& gate = made[1];
  const Operand input =
      restored([&] { return Convolution(made[0], names_.state_conv, scan.conv); });
  constexpr std::string_view names[] = {"mixer.time_step", "mixer.B", "mixer.C"};
  std::vector<Operand> parts =
      in_16_bits_.Linears(input, names_.scan_inputs,
                          {Module(names_.scan_inputs, scan.rank),
                           Module(names[1], scan.state, true), Module(names[2], scan.state, true)},
                          Outputs::kSideBySide);
  const std::string_view norms[] = {names_.scan_time_norm, names_.scan_b_norm, names_.scan_c_norm};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    tape_.Keep(parts[i].value);
    if (scan.norms) {
      parts[i] = operators_.Norm(parts[i], norms[i], Normalization::kRmsNorm, find_(norms[i]));
    }
    if (i > 0) parts[i] = operators_.Transposed(parts[i], names[i], ".transpose");
  }
  // The scan adds the bias of the time steps.
  ModulePositions weight = find_(names_.scan_time);
  std::vector<int> constants = Constants({names_.state_a, names_.state_d});
  if (weight.bias >= 0) constants.push_back(std::exchange(weight.bias, -1));
  weight.frozen_bias = false;
  const Operand time =
      restored([&] { return in_16_bits_.Linear(parts[0], names_.scan_time, scan.inner, weight); });
  const Operand y = operators_.Make("mixer.scan output", scan.inner, x.tokens);
  const Operand gated = operators_.Make("mixer.scan gated output", scan.inner, x.tokens);
  constexpr std::int64_t kChunk = 2048, kFlops = 9;
  const std::int64_t chunks = operators_.options_.micro_batch_size *
                              ((operators_.options_.sequence_length + kChunk - 1) / kChunk);
  const Bytes states(chunks * scan.inner * 2 * scan.state * kFp32Size);
  const Value ends = tape_.Make("mixer.scan states", states);
  const Pieces reads{input.value, time.value, gate.value, parts[1].value, parts[2].value};
  for (const Value value :
       {input.value, time.value, gate.value, parts[1].value, parts[2].value, y.value, ends}) {
    tape_.Keep(value);
  }
  const Bytes size = operators_.Size(y);
  const Bytes taken = 3 * size + 2 * operators_.Size(parts[1]);
  const std::int64_t flops = kFlops * x.tokens * scan.inner * scan.state;
  const auto kernel = [&](const char* name, bool forward, std::int64_t work, Bytes read,
                          Bytes written) {
    Kernel made = Scan(name, ScanKind::kSelective, forward, kChunk, work, read, written);
    made.data_type = DataType::kFp32;
    return made;
  };
  tape_.Run(kernel("mixer.scan", true, flops, taken, size + states), reads, {y.value, ends},
            constants);
  // The scan's kernel has read the output and the gate.
  restored([&] {
    tape_.Run(operators_.Memory("mixer.scan.gate", kGateFlops * LayerOperators::Elements(y),
                                Bytes(), size),
              {y.value, gate.value}, {gated.value});
    return gated;
  });
  Kernel gradient =
      kernel("mixer.scan.dgrad", false, flops / 2 * 5, taken + 2 * size + states, taken);
  gradient.model_flops = 2 * flops;
  tape_.OnBackward([=, this] {
    RunGradients(gradient, {tape_.GradientOf(gated.value)}, reads, Bytes(), constants);
  });
  return gated;
}

// Lightning attention scans like Mamba-2 with a state of its own for each head.
Operand RecurrentOperators::DecayAttention(const Operand& x) {
  const model::DecayAttention& decay = a_.decay;
  const std::int64_t width = decay.inner();
  const Operand mixed = operators_.Silu(
      operators_.Linear(x, names_.decay_in, 3 * width, find_(names_.decay_in)), "self_attn.act_fn");
  const Operand gate = operators_.Linear(x, names_.decay_gate, width, find_(names_.decay_gate));
  const Operand y = ScanChunks({.name = "self_attn.scan",
                                .heads = decay.heads,
                                .head = decay.head,
                                .state = decay.head,
                                .groups = decay.heads,
                                .chunk = decay.chunk},
                               {mixed}, {});
  return operators_.Multiply(
      operators_.Sigmoid(gate, "self_attn.output_gate.sigmoid"),
      operators_.Norm(y, names_.decay_norm, Normalization::kRmsNorm, find_(names_.decay_norm)),
      "self_attn.output_gate.product");
}

Operand RecurrentOperators::Mix(Mixer mixer, const Operand& normalized) {
  tape_.BeginModule(model::Module::kAttentionCore);
  const Operand x = operators_.EnterColumns(normalized, "mixer");
  Operand y;
  std::string_view last;
  bool fused = false;
  switch (mixer) {
    case Mixer::kDelta:
      y = DeltaRule(x);
      last = names_.delta_out;
      break;
    case Mixer::kStateSpace:
      y = StateSpace(x);
      last = names_.state_out;
      break;
    case Mixer::kShortConv:
      y = ShortConvolution(x);
      last = names_.short_out;
      break;
    case Mixer::kSelectiveScan:
      y = SelectiveScan(x);
      last = names_.state_out;
      fused = !a_.selective_scan.norms;
      break;
    case Mixer::kDecay:
      y = DecayAttention(x);
      last = names_.decay_out;
      break;
    case Mixer::kAttention:
    case Mixer::kNone:
      break;
  }
  tape_.EndModule();
  return (fused ? in_16_bits_ : operators_).LinearRows(y, last, a_.hidden, find_(last));
}

}  // namespace stepcast::model
