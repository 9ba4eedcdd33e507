#include "src/program/violation.h"

#include <ostream>

#include "fmt/format.h"

namespace stepcast::program {

const char* Name(ViolationKind kind) {
  switch (kind) {
    case ViolationKind::kIndex:
      return "index";
    case ViolationKind::kRace:
      return "race";
    case ViolationKind::kUseUnallocated:
      return "use-unallocated";
    case ViolationKind::kReleaseUnallocated:
      return "release-unallocated";
    case ViolationKind::kRecordUnallocated:
      return "record-unallocated";
    case ViolationKind::kAllocatedTwice:
      return "allocated-twice";
    case ViolationKind::kLeak:
      return "leak";
    case ViolationKind::kReleasedInUse:
      return "released-in-use";
    case ViolationKind::kUsedBeforeAllocation:
      return "used-before-allocation";
    case ViolationKind::kReadUnwritten:
      return "read-unwritten";
    case ViolationKind::kMismatch:
      return "mismatch";
    case ViolationKind::kDeadlock:
      return "deadlock";
  }
  return "";
}

std::ostream& operator<<(std::ostream& out, const Violation& violation) {
  return out << Name(violation.kind) << ": " << violation.message;
}

std::string PlaceOf(bool in_prologue, Index instruction) {
  return fmt::format("{}[{}]", in_prologue ? "prologue" : "step", instruction);
}

}  // namespace stepcast::program
