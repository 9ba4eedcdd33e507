#include "src/lowering/group_operations.h"

#include <algorithm>
#include <string>

#include "src/lowering/effects.h"
#include "src/parallel/axis.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {
namespace {

// "tensor", "tensor and context".
std::string NameOf(parallel::AxisSet axes) {
  std::string name;
  for (int axis = 0; axis < parallel::kAxes; ++axis) {
    const auto which = static_cast<parallel::Axis>(axis);
    if (axes.Has(which)) name += (name.empty() ? "" : " and ") + std::string(Name(which));
  }
  return name;
}

}  // namespace

const GroupOperations::Group& GroupOperations::GroupOf(parallel::AxisSet axes) {
  const auto known = std::find_if(groups_.begin(), groups_.end(),
                                  [&](const Group& group) { return group.axes == axes; });
  if (known != groups_.end()) return *known;
  const parallel::GroupLayout layout = plan::GridOf(plan_).Layout(axes);
  const std::string name = NameOf(axes);
  return groups_.emplace_back(Group{.axes = axes,
                                    .stream = builder_.AddStream(name),
                                    .communicator = builder_.AddCommunicator(name, layout),
                                    .ready = builder_.AddEvent(name + ": operands ready")});
}

GroupOperations::Entry GroupOperations::Add(const model::GroupOperation& operation) {
  const Group& group = GroupOf(operation.axes);
  return {.stream = group.stream,
          .collective = builder_.AddCollective({.kind = operation.collective,
                                                .communicator = group.communicator,
                                                .bytes = operation.bytes,
                                                .data_type = operation.type}),
          .ready = group.ready,
          .done = builder_.AddEvent(NameOf(operation.axes) + ": done")};
}

void GroupOperations::Issue(const Entry& entry, Index source, Index target) {
  builder_.WaitForStream(entry.stream, compute_, entry.ready);
  const program::Collective& collective = builder_.CollectiveAt(entry.collective);
  builder_.With(Collected(At(target, 0, collective.data_type), At(source, 0, collective.data_type),
                          collective.bytes.count() / SizeOf(collective.data_type)));
  if (source != target) builder_.Use(builder_.ReadsAll(source));
  builder_.Communicate(entry.stream, entry.collective, {builder_.WritesAll(target)});
  builder_.Record(entry.stream, entry.done);
}

}  // namespace stepcast::lowering
