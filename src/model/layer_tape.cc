#include "src/model/layer_tape.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "src/base/check.h"

namespace stepcast::model {

LayerTape::Value LayerTape::Make(std::string name, Bytes bytes) {
  variables_.push_back({.name = std::move(name), .bytes = bytes});
  return static_cast<Value>(variables_.size()) - 1;
}

LayerTape::Value LayerTape::Input(std::string name, Bytes bytes) {
  STEPCAST_CHECK(!input_, "a layer has one input");
  input_ = Make(std::move(name), bytes);
  return *input_;
}

LayerTape::Value LayerTape::Alias(Value value) {
  const Value alias = Make(variables_[value].name, variables_[value].bytes);
  variables_[alias].alias_of = value;
  return alias;
}

void LayerTape::Keep(Value value) {
  const Value of = variables_[value].alias_of;
  const Value kept = of == kNoValue ? value : of;
  variables_[kept].kept = true;
  kept_for_.emplace_back(kept, differentiate_.size());  // an operator keeps, then says how it ends
}

void LayerTape::Register(Value value, std::string name) {
  variables_[value].registered = true;
  variables_[value].name = std::move(name);
}

LayerTape::Use LayerTape::UseOf(Values reads, Values writes) const {
  STEPCAST_CHECK(reads.size() + writes.size() <= Use::kMost, "an operator with too many operands");
  Use use{.reads = reads.size()};
  for (const Values& values : {reads, writes}) {
    for (const Piece& piece : values) {
      const Value of = variables_[piece.value].alias_of;
      use.ranges[use.count] = piece.range;
      use.values[use.count++] = of == kNoValue ? piece.value : of;
    }
  }
  return use;
}

void LayerTape::NoteWriter(Value value) {
  Variable& variable = variables_[value];
  variable.writer = static_cast<int>(forward_.size());
  if (variable.first_writer < 0) variable.first_writer = variable.writer;
}

void LayerTape::Run(Kernel kernel, Values reads, Values writes, std::vector<int> parameters) {
  for (const Piece& piece : writes) NoteWriter(piece.value);
  Recorded& recorded = forward_.emplace_back();
  recorded.use = UseOf(reads, writes);
  recorded.module = module_;
  recorded.awaited_on_host = std::exchange(awaited_on_host_, kNoValue);
  recorded.operation.kernel = std::move(kernel);
  recorded.operation.lane = lane_;
  recorded.operation.parameters = std::move(parameters);
}

LayerTape::Recorded LayerTape::RecordedOf(const Collective& collective, Piece source,
                                          Piece target) const {
  STEPCAST_CHECK(lane_ == 0, "collectives of a lane beside the compute stream are not modelled");
  Recorded recorded;
  recorded.use = UseOf({source}, {target});
  recorded.operation.group = {.collective = collective.kind,
                              .axes = collective.axes,
                              .distance = collective.distance,
                              .multiprocessors = collective.multiprocessors,
                              .bytes = std::max(BytesIn(source), BytesIn(target)),
                              .type = collective.type};
  return recorded;
}

void LayerTape::Communicate(const Collective& collective, Piece source, Piece target) {
  if (source.value != target.value) NoteWriter(target.value);
  forward_.push_back(RecordedOf(collective, source, target));
  forward_.back().module = module_;
  forward_.back().awaited_on_host = std::exchange(awaited_on_host_, kNoValue);
}

void LayerTape::CommunicateBackward(const Collective& collective, Piece source, Piece target) {
  backward_.push_back(RecordedOf(collective, source, target));
}

void LayerTape::OnBackward(std::function<void()> differentiate) {
  differentiate_.push_back({std::move(differentiate), lane_});
}

LayerTape::Value LayerTape::GradientOf(Value value) const {
  STEPCAST_CHECK(variables_[value].gradient != kNoValue, "a gradient is used before it is made");
  return variables_[value].gradient;
}

LayerTape::Value LayerTape::MakeGradient(Value value) { return Make({}, variables_[value].bytes); }
LayerTape::Value LayerTape::MakeScratch(Bytes bytes) { return Make({}, bytes); }

void LayerTape::Deliver(Value value, Value contribution) {
  Value& gradient = variables_[value].gradient;
  if (gradient == kNoValue) {
    gradient = contribution;
    return;
  }
  const Bytes bytes = variables_[value].bytes;
  RunBackward({.name = variables_[value].name + ".grad.add",
               .data_type = element_,
               .flops = bytes.count() / SizeOf(element_),
               .read = fuses_sums_ ? bytes : 2 * bytes,
               .written = fuses_sums_ ? Bytes() : bytes},
              {gradient, contribution}, {gradient});
}

void LayerTape::RunBackward(Kernel kernel, Values reads, Values writes, std::vector<int> gradients,
                            std::vector<int> parameters) {
  Recorded& recorded = backward_.emplace_back();
  recorded.use = UseOf(reads, writes);
  recorded.operation.kernel = std::move(kernel);
  recorded.operation.lane = lane_;
  recorded.operation.gradients = std::move(gradients);
  recorded.operation.parameters = std::move(parameters);
}

namespace {

Bytes Sum(const std::vector<Bytes>& tensors) {
  Bytes sum;
  for (const Bytes bytes : tensors) sum += bytes;
  return sum;
}

}  // namespace

std::vector<Bytes> LayerTape::Peak(std::span<const Recorded> list, const Counted& counted,
                                   Values pinned_from_start, Values pinned_to_end) const {
  if (list.empty()) return {};
  const int end = static_cast<int>(list.size());
  struct Life {
    int first = -1;
    int last = -1;
  };
  std::vector<Life> lives(variables_.size());
  const auto use_at = [&lives](Value value, int i) {
    Life& life = lives[value];
    if (life.first < 0) life.first = i;
    life.last = std::max(life.last, i);
  };
  for (const Piece& pinned : pinned_from_start) use_at(pinned.value, 0);
  for (int i = 0; i < end; ++i) {
    for (const Value value : list[i].use.all()) {
      use_at(value, i);
      // Memory of another lane is free again when the list has ended.
      if (list[i].operation.lane != 0) lives[value].last = end;
    }
  }
  for (const Piece& pinned : pinned_to_end) use_at(pinned.value, end - 1);

  std::vector<Bytes> change(list.size() + 1);
  for (std::size_t v = 0; v < lives.size(); ++v) {
    if (lives[v].first < 0 || !counted(static_cast<Value>(v))) continue;
    change[lives[v].first] += variables_[v].bytes;
    change[std::min(lives[v].last + 1, end)] -= variables_[v].bytes;
  }
  Bytes alive, most;
  int peak = 0;
  for (int i = 0; i < end; ++i) {
    alive += change[i];
    if (alive <= most) continue;
    most = alive;
    peak = i;
  }
  std::vector<Bytes> tensors;
  for (std::size_t v = 0; v < lives.size(); ++v) {
    const bool there = lives[v].first >= 0 && lives[v].first <= peak && lives[v].last >= peak;
    if (there && variables_[v].bytes > Bytes() && counted(static_cast<Value>(v))) {
      tensors.push_back(variables_[v].bytes);
    }
  }
  return tensors;
}

void LayerTape::SayWhatBackwardCommunicates(std::span<const Recorded> list, const Places& place,
                                            std::span<const Operation> backward,
                                            std::vector<Operation>& operations) const {
  const std::vector<char> now = CommunicatedIn(list), later = CommunicatedIn(backward_);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Recorded& recorded = list[i];
    if (recorded.operation.group) continue;
    for (std::size_t u = 0; u < recorded.use.count; ++u) {
      const Value value = recorded.use.values[u];
      if (!recorded.use.Writes(u) || now[value] != 0 || later[value] == 0) continue;
      const std::optional<ValueUse> at = place(value);
      if (!at) continue;
      const auto sender = std::find_if(backward.begin(), backward.end(), [&](const Operation& op) {
        return op.group && op.group->source.table == at->table &&
               op.group->source.index == at->index;
      });
      if (sender == backward.end()) continue;
      ValueUse use = sender->group->source;
      use.write = true;
      operations[i].uses.push_back(use);
    }
  }
}

std::vector<char> LayerTape::CommunicatedIn(std::span<const Recorded> list) const {
  std::vector<char> communicated(variables_.size(), 0);
  for (const Recorded& recorded : list) {
    if (!recorded.operation.group) continue;
    communicated[recorded.use.source()] = communicated[recorded.use.target()] = 1;
  }
  return communicated;
}

namespace {

ValueUse::Content ContentOf(const GroupOperation& group) {
  switch (group.collective) {
    case CollectiveKind::kAllGather:
      // Ranks that share layers have the same tokens afterwards; those of a context and those that
      // share out experts keep their own.
      return Meet(group.axes, parallel::Axis::kContextOuter | parallel::kExpertAxes)
                 ? ValueUse::Content::kSent
                 : ValueUse::Content::kGathered;
    case CollectiveKind::kSendRecv:
    case CollectiveKind::kAllToAll:
      return ValueUse::Content::kSent;
    default:
      return ValueUse::Content::kSum;
  }
}

}  // namespace

int LayerTape::LastWriter(std::span<const Recorded> list, Value value) {
  for (std::size_t i = list.size(); i-- > 0;) {
    const Use& use = list[i].use;
    for (std::size_t u = use.reads; u < use.count; ++u) {
      if (use.values[u] == value) return static_cast<int>(i);
    }
  }
  return Operation::kNoWait;  // the host has it from the pass before
}

void LayerTape::Place(std::span<const Recorded> list, const Places& place,
                      std::vector<Operation>& operations, LayerWork& work) const {
  for (const Recorded& recorded : list) operations.push_back(recorded.operation);
  const std::vector<char> communicated = CommunicatedIn(list);
  std::map<Value, ValueUse> places;
  struct Own {            // of values with buffers of their own: operations
    int last = -1;        // that uses it
    int last_group = -1;  // among them
  };
  std::map<Value, Own> own;
  struct Touch {
    int group = 0;  // operation
    PieceRange range;
    bool write = false;
  };
  std::map<Value, std::vector<Touch>> in_flight;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Recorded& recorded = list[i];
    Operation& operation = operations[i];
    if (recorded.awaited_on_host != kNoValue) {
      operation.host_waits_for = LastWriter(list.first(i), recorded.awaited_on_host);
    }
    for (std::size_t u = 0; u < recorded.use.count; ++u) {
      const Value value = recorded.use.values[u];
      if (communicated[value] == 0) continue;
      auto at = places.find(value);
      if (at == places.end()) {
        at = places.emplace(value, ValueUse{}).first;
        if (const auto known = place(value)) {
          at->second = *known;
        } else {
          at->second = {.table = ValueUse::Table::kCommunicated,
                        .index = static_cast<int>(work.communicated.size())};
          work.communicated.push_back({.name = variables_[value].name,
                                       .bytes = variables_[value].bytes,
                                       .registered = variables_[value].registered});
          if (!variables_[value].registered) operation.begins.push_back(at->second.index);
        }
      }
      const bool writes = recorded.use.Writes(u);
      const PieceRange& range = recorded.use.ranges[u];
      if (at->second.table == ValueUse::Table::kCommunicated && !variables_[value].registered) {
        own[value].last = static_cast<int>(i);
        if (operation.group) own[value].last_group = static_cast<int>(i);
      }
      for (const Touch& touch : in_flight[value]) {
        if (!(touch.write || writes) || !range.Overlaps(touch.range)) continue;
        // A stream of group operations is in order by itself.
        const GroupOperation& before = *operations[touch.group].group;
        if (!operation.group || operation.group->axes != before.axes) {
          operation.waits.push_back(touch.group);
        }
      }
      if (!operation.group) {
        ValueUse use = at->second;
        use.write = writes;
        use.range = range;
        operation.uses.push_back(use);
      }
    }
    if (!operation.group) {
      // What it has waited for is over, and with it what ran before that on the same stream.
      for (const int waited : operation.waits) {
        for (auto& [value, touches] : in_flight) {
          std::erase_if(touches, [&](const Touch& touch) {
            return touch.group <= waited &&
                   operations[touch.group].group->axes == operations[waited].group->axes;
          });
        }
      }
      std::sort(operation.waits.begin(), operation.waits.end());
      operation.waits.erase(std::unique(operation.waits.begin(), operation.waits.end()),
                            operation.waits.end());
      continue;
    }
    const Piece source(recorded.use.source(), recorded.use.ranges[0]);
    const Piece target(recorded.use.target(), recorded.use.ranges[1]);
    GroupOperation& group = *operation.group;
    for (const auto& [piece, other, use] :
         {std::tuple(source, target, &group.source), std::tuple(target, source, &group.target)}) {
      in_flight[piece.value].push_back(
          {.group = static_cast<int>(i), .range = piece.range, .write = use == &group.target});
      *use = places.at(piece.value);
      use->range = piece.range;
      if (group.collective == CollectiveKind::kAllToAll) {
        const auto ranks =
            static_cast<int>(group.bytes.count() / (BytesIn(source) - BytesIn(target)).count());
        use->parts = use == &group.source ? ranks : ranks - 1;
      } else if (BytesIn(piece) == group.bytes && BytesIn(other) < group.bytes) {
        use->parts = static_cast<int>(group.bytes.count() / BytesIn(other).count());
      }
    }
  }
  // Kernels see the same parts and type of a value as the collective does.
  std::map<std::pair<ValueUse::Table, int>, ValueUse> seen;
  for (Operation& operation : operations) {
    if (!operation.group) continue;
    for (ValueUse* use : {&operation.group->source, &operation.group->target}) {
      use->type = operation.group->type;
      use->content = ContentOf(*operation.group);
      ValueUse& most = seen.emplace(std::pair(use->table, use->index), *use).first->second;
      if (use->range.pieces * use->parts > most.range.pieces * most.parts) most = *use;
    }
  }
  for (Operation& operation : operations) {
    for (ValueUse& use : operation.uses) {
      const ValueUse& as = seen.at({use.table, use.index});
      use.parts = as.parts * as.range.pieces / use.range.pieces;
      use.type = as.type;
      use.content = as.content;
    }
  }
  // A buffer is free after the kernel that used it last, or after a later one if that is the first
  // behind which the last group operation on it has been waited for; if none is, the next list's
  // first kernel frees it.
  for (const auto& [value, uses] : own) {
    bool over = uses.last_group < 0;
    for (std::size_t i = static_cast<std::size_t>(std::max(uses.last_group, 0));
         i < operations.size(); ++i) {
      if (operations[i].group) continue;
      over = over || std::any_of(operations[i].waits.begin(), operations[i].waits.end(),
                                 [&, at = uses.last_group](int waited) {
                                   return waited >= at && operations[waited].group->axes ==
                                                              operations[at].group->axes;
                                 });
      if (!over || static_cast<int>(i) < uses.last) continue;
      operations[i].ends.push_back(places.at(value).index);
      break;
    }
  }
  JoinLanes(list, operations);
}

void LayerTape::JoinLanes(std::span<const Recorded> list, std::vector<Operation>& operations) {
  const auto beside = [](const Operation& operation) { return operation.lane != 0; };
  if (std::none_of(operations.begin(), operations.end(), beside)) return;
  constexpr int kNever = -1;
  struct Used {
    std::array<int, kLanes> last{kNever, kNever}, written{kNever, kNever};  // by lane: operation
  };
  std::map<Value, Used> used;
  // [lane] the last operation of the other lane for whose end it has waited.
  std::array<int, kLanes> joined{kNever, kNever};
  std::array<int, kLanes> last{kNever, kNever};  // kernels
  std::vector<int> gradients;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    Operation& operation = operations[i];
    if (operation.group) continue;
    const std::size_t own = operation.lane, other = 1 - own;
    // The second lane begins behind what was there before the list.
    int awaited = own != 0 && last[own] == kNever ? last[other] : kNever;
    const Use& use = list[i].use;
    for (std::size_t u = 0; u < use.count; ++u) {
      Used& of = used[use.values[u]];
      awaited = std::max(awaited, use.Writes(u) ? of.last[other] : of.written[other]);
      of.last[own] = static_cast<int>(i);
      if (use.Writes(u)) of.written[own] = static_cast<int>(i);
    }
    // A stream waits for all that has been issued to the other.
    if (awaited > joined[own]) {
      operation.waits.push_back(last[other]);
      joined[own] = last[other];
    }
    last[own] = static_cast<int>(i);
    if (own == 0) continue;
    gradients.insert(gradients.end(), operation.gradients.begin(), operation.gradients.end());
    operation.gradients.clear();
  }
  STEPCAST_CHECK(last[0] > last[1], "the compute stream's kernels begin and end a list");
  Operation& end = operations[static_cast<std::size_t>(last[0])];
  if (last[1] > joined[0]) end.waits.push_back(last[1]);
  end.gradients.insert(end.gradients.end(), gradients.begin(), gradients.end());
}

void LayerTape::DropGradientOfInput() {
  std::vector<char> wanted(variables_.size(), 0), used(differentiate_.size(), 0);
  std::vector<Recorded> needed;
  for (std::size_t i = backward_.size(); i-- > 0;) {
    const Recorded& recorded = backward_[i];
    bool needs = !recorded.operation.gradients.empty();
    for (std::size_t u = recorded.use.reads; u < recorded.use.count; ++u) {
      needs = needs || wanted[recorded.use.values[u]] != 0;
    }
    if (!needs) continue;
    for (const Value value : recorded.use.all()) wanted[value] = 1;
    used[recorded.differentiates] = 1;
    needed.push_back(recorded);
  }
  std::reverse(needed.begin(), needed.end());
  backward_ = std::move(needed);
  for (Variable& variable : variables_) variable.kept = false;
  // Kernels that an operator runs for itself alone do not say what they read of what it keeps.
  for (const auto& [value, operation] : kept_for_) {
    if (used[operation] != 0 || wanted[value] != 0) variables_[value].kept = true;
  }
  if (input_) variables_[*input_].gradient = kNoValue;
}

void LayerTape::KeepInputs(const RecomputedModules& modules) {
  for (const Recorded& recorded : forward_) {
    if (!modules.Has(recorded.module)) continue;
    for (std::size_t u = 0; u < recorded.use.reads; ++u) {
      Variable& variable = variables_[recorded.use.values[u]];
      if (variable.writer < 0 || !modules.Has(forward_[variable.writer].module)) {
        variable.kept = true;
      }
    }
  }
}

LayerWork LayerTape::Finish(std::optional<Value> output, const Keeping& keeping) {
  const Checkpointing checkpointing = keeping.checkpointing;
  const std::size_t activations = variables_.size();
  std::optional<Value> output_gradient;
  if (output) {
    output_gradient = MakeGradient(*output);
    variables_[*output].gradient = *output_gradient;
  }
  for (std::size_t i = differentiate_.size(); i-- > 0;) {
    const std::size_t first = backward_.size();
    lane_ = differentiate_[i].lane;
    differentiate_[i].run();
    lane_ = 0;
    for (std::size_t op = first; op < backward_.size(); ++op) backward_[op].differentiates = i;
  }
  if (!keeping.input_has_gradient) DropGradientOfInput();
  if (keeping.keeps_inputs_of_modules && checkpointing == Checkpointing::kSelective) {
    KeepInputs(keeping.modules);
  }
  if (keeping.delays_weight_gradients) DelayWeightGradients();

  const auto dropped = [&](int op) { return op >= 0 && keeping.modules.Has(forward_[op].module); };
  // Where each kept activation goes: its index in `saved` and in `recomputed`, or -1.
  LayerWork work;
  work.continues_checkpoint = keeping.continues_checkpoint;
  std::vector<int> saved(variables_.size(), -1), recomputed(variables_.size(), -1);
  // A tensor of a dropped module that operators outside it keep too (its output) stays as well; but
  // a norm's, which is all that dropping one is for.
  std::vector<char> used_outside(variables_.size(), 0);
  for (std::size_t i = 0; i < forward_.size(); ++i) {
    if (dropped(static_cast<int>(i))) continue;
    for (const Value value : forward_[i].use.all()) used_outside[value] = 1;
  }
  // Operators whose outcome selective_op keeps.
  std::vector<char> kept_operator(forward_.size(), 0);
  if (checkpointing == Checkpointing::kSelectiveOp) {
    bool keep_next = true;
    for (std::size_t op = 0; op < forward_.size(); ++op) {
      if (forward_[op].operation.group) continue;
      const Kernel& kernel = forward_[op].operation.kernel;
      if (kernel.kind == KernelKind::kAttention) kept_operator[op] = 1;
      if (kernel.kind != KernelKind::kGemm || kernel.batch != 1) continue;
      kept_operator[op] = keep_next ? 1 : 0;
      keep_next = !keep_next;
    }
    // What is added to a kept outcome where it lies, a bias, is kept with it.
    for (std::size_t v = 0; v < activations; ++v) {
      const Variable& variable = variables_[v];
      if (variable.first_writer >= 0 && kept_operator[variable.first_writer] != 0) {
        kept_operator[variable.writer] = 1;
      }
    }
  }
  for (std::size_t v = 0; v < activations; ++v) {
    Variable& variable = variables_[v];
    const bool outcome = variable.writer >= 0 && kept_operator[variable.writer] != 0 &&
                         output != static_cast<Value>(v);
    const bool is_input = input_ == static_cast<Value>(v);
    const bool starts_again = is_input && (checkpointing == Checkpointing::kFull ||
                                           checkpointing == Checkpointing::kSelectiveOp);
    if (!variable.kept && !outcome && !starts_again) continue;
    bool save = true, recompute = false;
    switch (checkpointing) {
      case Checkpointing::kNone:
        break;
      case Checkpointing::kSelective:
        recompute = !is_input && dropped(variable.writer);
        save =
            !recompute || (used_outside[v] != 0 && !DropsOutput(forward_[variable.writer].module));
        break;
      case Checkpointing::kFull:
        recompute = !is_input || keeping.continues_checkpoint;
        save = !recompute;
        break;
      case Checkpointing::kSelectiveOp:
        save = is_input || outcome;
        recompute = !save;
        break;
    }
    if (save) {
      if (is_input) work.input = static_cast<int>(work.saved.size());
      saved[v] = static_cast<int>(work.saved.size());
      work.saved.push_back({variable.name, variable.bytes});
    }
    if (recompute) {
      recomputed[v] = static_cast<int>(work.recomputed.size());
      work.recomputed.push_back({variable.name, variable.bytes});
    }
  }

  const auto creates = [&](int op, const std::vector<int>& index) {
    std::vector<int> created;
    if (op == 0 && input_ && index[*input_] >= 0) created.push_back(index[*input_]);
    for (const Value value : forward_[op].use.all()) {
      if (variables_[value].first_writer == op && index[value] >= 0) {
        created.push_back(index[value]);
      }
    }
    return created;
  };
  if (output) work.output = variables_[*output].bytes;
  const int operators = static_cast<int>(forward_.size());
  int needed = operators;  // of what is recomputed as a whole: the operators before
  if (keeping.stops_early) {
    needed = 0;
    for (const Variable& variable : variables_) {
      if (variable.kept) needed = std::max(needed, variable.writer + 1);
    }
  }
  const auto again = [&](int op) {
    switch (checkpointing) {
      case Checkpointing::kNone:
        return false;
      case Checkpointing::kSelective:
        return dropped(op);
      case Checkpointing::kFull:
      case Checkpointing::kSelectiveOp:
        return op >= 0 && op < needed;
    }
    return false;
  };
  std::vector<Recorded> recompute;
  for (int op = 0; op < operators; ++op) {
    if (!again(op) || kept_operator[op] != 0) continue;
    recompute.push_back(forward_[op]);
    recompute.back().operation.creates = creates(op, recomputed);
  }
  for (int op = 0; op < operators; ++op) forward_[op].operation.creates = creates(op, saved);

  using Table = ValueUse::Table;
  const auto in_table = [](const std::vector<int>& index, Table table, Value v) {
    return index[v] < 0 ? std::nullopt : std::optional(ValueUse{.table = table, .index = index[v]});
  };
  const Places kept = [&](Value v) { return in_table(saved, Table::kSaved, v); };
  const Places kept_or_again = [&](Value v) {
    const auto place = in_table(recomputed, Table::kRecomputed, v);
    return place ? place : kept(v);
  };
  Place(forward_, kept, work.forward, work);
  Place(recompute, kept_or_again, work.recompute, work);
  const Places known_backward = [&](Value v) {
    if (output_gradient == v) return std::optional(ValueUse{.table = Table::kHandedBack});
    return kept_or_again(v);
  };
  Place(backward_, known_backward, work.backward, work);
  SayWhatBackwardCommunicates(forward_, kept, work.backward, work.forward);
  SayWhatBackwardCommunicates(recompute, kept_or_again, work.backward, work.recompute);

  // What is communicated has its own buffers.
  const std::vector<char> forward_communicated = CommunicatedIn(forward_);
  const auto forward_passing = [&](Value v) {
    return saved[v] < 0 && forward_communicated[v] == 0;
  };
  // What is not kept of the input passes by.
  const std::vector<Piece> given =
      keeping.continues_checkpoint ? std::vector<Piece>{*input_} : std::vector<Piece>();
  work.forward_temporaries = output ? Peak(forward_, forward_passing, given, {*output})
                                    : Peak(forward_, forward_passing, given, {});
  const std::vector<char> backward_communicated = CommunicatedIn(backward_);
  if (output_gradient && backward_communicated[*output_gradient] != 0) {
    work.handed_back = variables_[*output_gradient].bytes;
  }
  const auto any = [&](Value v) {
    return backward_communicated[v] == 0 && saved[v] < 0 && recomputed[v] < 0;
  };
  const Value input_gradient = input_ ? variables_[*input_].gradient : kNoValue;
  if (output_gradient && input_gradient != kNoValue) {
    work.backward_temporaries = Peak(backward_, any, {*output_gradient}, {input_gradient});
  } else if (output_gradient) {
    work.backward_temporaries = Peak(backward_, any, {*output_gradient}, {});
  } else if (input_gradient != kNoValue) {
    work.backward_temporaries = Peak(backward_, any, {}, {input_gradient});
  } else {
    work.backward_temporaries = Peak(backward_, any, {}, {});
  }
  if (!work.recompute.empty()) {
    // What passes by while the forward runs again, beside the gradient that waits for it. Operands
    // that a module takes from outside are saved.
    const std::vector<char> again_communicated = CommunicatedIn(recompute);
    const auto passes = [&](Value v) {
      return again(variables_[v].writer) && recomputed[v] < 0 && saved[v] < 0 &&
             again_communicated[v] == 0;
    };
    std::vector<Recorded> rerun;
    for (int op = 0; op < operators; ++op) {
      if (again(op)) rerun.push_back(forward_[op]);
    }
    std::vector<Bytes> peak = Peak(rerun, passes, {}, {});
    if (output_gradient && variables_[*output_gradient].bytes > Bytes()) {
      peak.push_back(variables_[*output_gradient].bytes);
    }
    if (Sum(peak) > Sum(work.backward_temporaries)) work.backward_temporaries = std::move(peak);
  }
  work.forward_transient = Sum(work.forward_temporaries);
  work.backward_transient = Sum(work.backward_temporaries);
  if (keeping.splits_backward) SplitBackward(output_gradient, std::move(saved), work);
  return work;
}

}  // namespace stepcast::model
