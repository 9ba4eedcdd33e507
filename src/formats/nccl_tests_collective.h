#pragma once

#include <vector>

#include "src/base/collective_kind.h"
#include "src/formats/nccl_tests.h"

// Which collective a table of nccl-tests is of, where no line of the log names the program: its
// rows say whether there was a reduction (redop), whether there was a root, and by busbw over algbw
// (BusFactor) which collectives it may be on how many ranks.
namespace stepcast::formats {

struct DeducedCollective {
  std::vector<CollectiveKind> kinds;  // that it may be
  int ranks = 0;                      // as busbw over algbw says; 0: that does not tell
};

// `ranks` of the run, 0 where that is not known.
DeducedCollective DeduceCollective(const NcclTestsTraits& traits, int ranks);

}  // namespace stepcast::formats
