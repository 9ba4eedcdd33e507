#include "src/lowering/group_operations.h"

#include <algorithm>
#include <string>

#include "src/lowering/step_parts.h"
#include "src/parallel/axis.h"

namespace stepcast::lowering {
const GroupOperations::Group& GroupOperations::GroupOf(parallel::AxisSet axes) {
  const auto known = std::find_if(groups_.begin(), groups_.end(),
                                  [&](const Group& group) { return group.axes == axes; });
  if (known != groups_.end()) return *known;
  const parallel::GroupLayout layout = grids_.Layout(axes);
  const std::string name = parallel::NameOf(axes);
  return groups_.emplace_back(Group{.axes = axes,
                                    .stream = builder_.AddStream(name),
                                    .communicator = builder_.AddCommunicator(name, layout),
                                    .ready = builder_.AddEvent(name + ": operands ready")});
}

GroupOperations::Entry GroupOperations::Add(const model::GroupOperation& operation) {
  const Group& group = GroupOf(operation.axes);
  Entry entry{.stream = group.stream,
              .ready = group.ready,
              .done = builder_.AddEvent(parallel::NameOf(operation.axes) + ": done")};
  using program::MessageDirection;
  if (operation.collective == CollectiveKind::kSendRecv) {
    entry.exchange = builder_.AddExchange({.communicator = group.communicator,
                                           .data_type = operation.type,
                                           .peers = program::PeerNaming::kDistance,
                                           .messages = {{.direction = MessageDirection::kSend,
                                                         .peer = operation.distance,
                                                         .bytes = operation.bytes},
                                                        {.direction = MessageDirection::kReceive,
                                                         .peer = -operation.distance,
                                                         .bytes = operation.bytes}},
                                           .multiprocessors = operation.multiprocessors});
    return entry;
  }
  entry.collective = builder_.AddCollective({.kind = operation.collective,
                                             .communicator = group.communicator,
                                             .bytes = operation.bytes,
                                             .data_type = operation.type,
                                             .multiprocessors = operation.multiprocessors,
                                             .loads = operation.loads});
  return entry;
}

program::BufferUse GroupOperations::RangeOf(const model::ValueUse& use, Index buffer,
                                            bool write) const {
  const Bytes piece(builder_.SizeOf(buffer).count() / use.range.pieces);
  return {.buffer = buffer, .write = write, .offset = use.range.piece * piece, .size = piece};
}

void GroupOperations::Issue(const Entry& entry, const model::GroupOperation& operation,
                            Index source, Index target) {
  builder_.WaitForStream(entry.stream, compute_, entry.ready);
  program::BufferUse read = RangeOf(operation.source, source, false);
  // A rank keeps its own part in place.
  if (operation.collective == CollectiveKind::kAllToAll) {
    read.size -= Bytes(read.size.count() / operation.source.parts);
  }
  const program::BufferUse write = RangeOf(operation.target, target, true);
  if (entry.exchange != program::kNone) {
    builder_.Exchange(entry.stream, entry.exchange, {read, write});
  } else {
    const program::Collective& collective = builder_.CollectiveAt(entry.collective);
    const auto at = [&](const program::BufferUse& use) {
      return program::Elements{
          .buffer = use.buffer, .offset = use.offset, .type = collective.data_type};
    };
    builder_.With(
        Collected(at(write), at(read), collective.bytes.count() / SizeOf(collective.data_type)));
    if (source != target) builder_.Use(read);
    builder_.Communicate(entry.stream, entry.collective, {write});
  }
  builder_.Record(entry.stream, entry.done);
}

}  // namespace stepcast::lowering
