#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "src/base/check.h"
#include "src/model/layer_tape.h"

// Completes a list for its group operations and lanes: the places of values, the waits, and buffers
// for values that backward does not keep.
namespace stepcast::model {
namespace {

ValueUse::Content ContentOf(const GroupOperation& group) {
  switch (group.collective) {
    case CollectiveKind::kAllGather:
      // Ranks that share layers have the same tokens afterwards. Ranks of a context, and those that
      // share out experts, keep their own.
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

std::vector<char> LayerTape::CommunicatedIn(std::span<const Recorded> list) const {
  std::vector<char> communicated(variables_.size(), 0);
  for (const Recorded& recorded : list) {
    if (!recorded.operation.group) continue;
    communicated[recorded.use.source()] = communicated[recorded.use.target()] = 1;
  }
  return communicated;
}

int LayerTape::LastWriter(std::span<const Recorded> list, Value value) {
  for (std::size_t i = list.size(); i-- > 0;) {
    const Use& use = list[i].use;
    for (std::size_t u = use.reads; u < use.count; ++u) {
      if (use.values[u] == value) return static_cast<int>(i);
    }
  }
  return Operation::kNoWait;  // the host has it from the pass before
}

// Goes through a list once. Values without a known place get buffers of their own in the work.
class LayerTape::Placement {
 public:
  Placement(const LayerTape& tape, std::span<const Recorded> list, const Places& known,
            std::vector<Operation>& operations, LayerWork& work)
      : tape_(tape),
        list_(list),
        known_(known),
        communicated_(tape.CommunicatedIn(list)),
        operations_(operations),
        work_(work) {}

  void Run() {
    for (std::size_t i = 0; i < list_.size(); ++i) {
      PlaceValues(i);
      if (operations_[i].group) {
        PlaceGroup(i);
      } else {
        ForgetWhatIsOver(operations_[i]);
      }
    }
    SayTypes();
    EndLives();
  }

 private:
  // A value with a buffer of its own: operations.
  struct Own {
    int last = -1;        // that uses it
    int last_group = -1;  // among them
  };
  // A pending access: a group operation, for which no kernel has waited yet, reads or writes a
  // value.
  struct Touch {
    int group = 0;  // operation
    PieceRange range;
    bool write = false;
  };

  bool IsRegistered(Value value) const { return tape_.variables_[value].registered; }

  // The place of a value that a group operation of the list reads or writes. `begins`: buffers that
  // the operation is the first to use.
  ValueId PlaceOf(Value value, std::vector<ValueId>& begins) {
    const auto [at, is_new] = places_.try_emplace(value);
    if (!is_new) return at->second;
    if (const auto known = known_(value)) return at->second = *known;
    const Variable& variable = tape_.variables_[value];
    std::vector<LayerValue>& buffers = work_.Of(Lifetime::kCommunicated);
    at->second = {Lifetime::kCommunicated, static_cast<int>(buffers.size())};
    buffers.push_back(
        {.name = variable.name, .bytes = variable.bytes, .registered = variable.registered});
    if (!variable.registered) begins.push_back(at->second);
    return at->second;
  }

  void PlaceValues(std::size_t i) {
    const Recorded& recorded = list_[i];
    Operation& operation = operations_[i];
    if (recorded.awaited_on_host != kNoValue) {
      operation.host_waits_for = LastWriter(list_.first(i), recorded.awaited_on_host);
    }
    std::vector<ValueId> begins;
    for (std::size_t u = 0; u < recorded.use.count; ++u) {
      const Value value = recorded.use.values[u];
      if (communicated_[value] == 0) continue;
      const ValueId at = PlaceOf(value, begins);
      const bool writes = recorded.use.Writes(u);
      const PieceRange& range = recorded.use.ranges[u];
      if (at.lifetime == Lifetime::kCommunicated && !IsRegistered(value)) {
        own_[value].last = static_cast<int>(i);
        if (operation.group) own_[value].last_group = static_cast<int>(i);
      }
      for (const Touch& touch : in_flight_[value]) {
        if (!(touch.write || writes) || !range.Overlaps(touch.range)) continue;
        // Group operations of one stream run in order.
        const GroupOperation& before = *operations_[touch.group].group;
        if (!operation.group || operation.group->axes != before.axes) {
          operation.waits.push_back(touch.group);
        }
      }
      if (!operation.group) {
        operation.uses.push_back({.value = at, .write = writes, .range = range});
      }
    }
    operation.begins.insert(operation.begins.begin(), begins.begin(), begins.end());
  }

  // Removes the accesses that a kernel has waited for, and earlier ones of the same stream.
  void ForgetWhatIsOver(Operation& kernel) {
    for (const int waited : kernel.waits) {
      for (auto& [value, touches] : in_flight_) {
        std::erase_if(touches, [&](const Touch& touch) {
          return touch.group <= waited &&
                 operations_[touch.group].group->axes == operations_[waited].group->axes;
        });
      }
    }
    std::sort(kernel.waits.begin(), kernel.waits.end());
    kernel.waits.erase(std::unique(kernel.waits.begin(), kernel.waits.end()), kernel.waits.end());
  }

  void PlaceGroup(std::size_t i) {
    const Use& uses = list_[i].use;
    const Piece source(uses.source(), uses.ranges[0]), target(uses.target(), uses.ranges[1]);
    GroupOperation& group = *operations_[i].group;
    for (const auto& [piece, other, use] :
         {std::tuple(source, target, &group.source), std::tuple(target, source, &group.target)}) {
      in_flight_[piece.value].push_back(
          {.group = static_cast<int>(i), .range = piece.range, .write = use == &group.target});
      *use = {.value = places_.at(piece.value), .range = piece.range};
      if (group.collective == CollectiveKind::kAllToAll) {
        const Bytes kept = tape_.BytesIn(source) - tape_.BytesIn(target);
        // Without a part that stays on the rank, the values are one part.
        const auto ranks =
            kept > Bytes() ? static_cast<int>(group.bytes.count() / kept.count()) : 1;
        use->parts = use == &group.source ? ranks : std::max(1, ranks - 1);
      } else if (tape_.BytesIn(piece) == group.bytes && tape_.BytesIn(other) < group.bytes &&
                 tape_.BytesIn(other) > Bytes()) {
        use->parts = static_cast<int>(group.bytes.count() / tape_.BytesIn(other).count());
      }
    }
  }

  // Copies the parts and the type of a collective's values to the kernels that use them.
  void SayTypes() {
    std::map<ValueId, ValueUse> seen;
    for (Operation& operation : operations_) {
      if (!operation.group) continue;
      for (ValueUse* use : {&operation.group->source, &operation.group->target}) {
        use->type = operation.group->type;
        use->content = ContentOf(*operation.group);
        ValueUse& most = seen.emplace(use->value, *use).first->second;
        if (use->range.pieces * use->parts > most.range.pieces * most.parts) most = *use;
      }
    }
    for (Operation& operation : operations_) {
      for (ValueUse& use : operation.uses) {
        const ValueUse& as = seen.at(use.value);
        use.parts = as.parts * as.range.pieces / use.range.pieces;
        use.type = as.type;
        use.content = as.content;
      }
    }
  }

  // A buffer is freed after the kernel that used it last, or after the first later kernel behind
  // which its last group operation has been waited for. If there is none, the next list's first
  // kernel frees it.
  void EndLives() {
    for (const auto& [value, uses] : own_) {
      bool over = uses.last_group < 0;
      for (std::size_t i = static_cast<std::size_t>(std::max(uses.last_group, 0));
           i < operations_.size(); ++i) {
        if (operations_[i].group) continue;
        over = over || std::any_of(operations_[i].waits.begin(), operations_[i].waits.end(),
                                   [&, at = uses.last_group](int waited) {
                                     return waited >= at && operations_[waited].group->axes ==
                                                                operations_[at].group->axes;
                                   });
        if (!over || static_cast<int>(i) < uses.last) continue;
        operations_[i].ends.push_back(places_.at(value));
        break;
      }
    }
  }

  const LayerTape& tape_;
  const std::span<const Recorded> list_;
  const Places& known_;
  const std::vector<char> communicated_;
  std::vector<Operation>& operations_;
  LayerWork& work_;
  std::map<Value, ValueId> places_;
  std::map<Value, Own> own_;
  std::map<Value, std::vector<Touch>> in_flight_;
};

void LayerTape::Place(std::span<const Recorded> list, const Places& place,
                      std::vector<Operation>& operations, LayerWork& work) const {
  for (const Recorded& recorded : list) operations.push_back(recorded.operation);
  Placement(*this, list, place, operations, work).Run();
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
  // [lane] the last operation of the other lane whose end it has waited for.
  std::array<int, kLanes> joined{kNever, kNever};
  std::array<int, kLanes> last{kNever, kNever};  // kernels
  int first_beside = kNever;
  std::vector<int> gradients;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    Operation& operation = operations[i];
    if (operation.group) continue;
    const std::size_t own = operation.lane, other = 1 - own;
    // The second lane begins after all that was issued before the list.
    int awaited = own != 0 && last[own] == kNever ? last[other] : kNever;
    const Use& use = list[i].use;
    for (std::size_t u = 0; u < use.count; ++u) {
      Used& of = used[use.values[u]];
      awaited = std::max(awaited, use.Writes(u) ? of.last[other] : of.written[other]);
      of.last[own] = static_cast<int>(i);
      if (use.Writes(u)) of.written[own] = static_cast<int>(i);
    }
    // A stream waits for everything issued to the other stream.
    if (awaited > joined[own]) {
      operation.waits.push_back(last[other]);
      joined[own] = last[other];
    }
    last[own] = static_cast<int>(i);
    if (own == 0) continue;
    // Memory belongs to the compute stream. Tensors of the second lane are allocated where the lane
    // begins, after earlier uses of the memory, because later kernels of the lane do not wait for
    // the compute stream.
    if (first_beside == kNever) {
      first_beside = static_cast<int>(i);
    } else {
      std::vector<ValueId>& begins = operations[static_cast<std::size_t>(first_beside)].begins;
      begins.insert(begins.end(), operation.begins.begin(), operation.begins.end());
      operation.begins.clear();
    }
    gradients.insert(gradients.end(), operation.gradients.begin(), operation.gradients.end());
    operation.gradients.clear();
  }
  STEPCAST_CHECK(last[0] > last[1],
                 "a list of operations must begin and end with kernels of the compute stream");
  Operation& end = operations[static_cast<std::size_t>(last[0])];
  if (last[1] > joined[0]) end.waits.push_back(last[1]);
  end.gradients.insert(end.gradients.end(), gradients.begin(), gradients.end());
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
      const std::optional<ValueId> at = place(value);
      if (!at) continue;
      const auto sender = std::find_if(backward.begin(), backward.end(), [&](const Operation& op) {
        return op.group && op.group->source.value == *at;
      });
      if (sender == backward.end()) continue;
      ValueUse use = sender->group->source;
      use.write = true;
      operations[i].uses.push_back(use);
    }
  }
}

}  // namespace stepcast::model
