#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/forecast/forecast.h"

// Why a measured step takes longer than its forecast. Every instant of either step belongs to one
// cause, by what the device and the host did then; a cause explains the difference of its two
// times. What is idle in both for no visible reason is the remainder.
namespace stepcast::validate {

// What an operation on a stream does. A message is a send or a receive.
enum class Activity : std::uint8_t {
  kProduct,
  kAttention,
  kOptimizer,
  kElementwise,
  kOtherKernel,
  kCopy,
  kCollective,
  kMessage,
};

struct StepEvent {
  Activity activity = Activity::kOtherKernel;
  std::string name{};     // of a kernel; of communication, its axis: "data"
  std::string members{};  // of communication: the group's ranks, equal text on its ranks
  Bytes bytes{};          // of communication
  int step = 0;           // launched so many steps after the described one
  Time begin{}, end{};    // of communication: from when its stream reaches it
  std::optional<Time> launched{};  // when the host had submitted it; none: unknown, in time
  // Of communication: the last part, in which data move. Before it, it waits for other ranks. None:
  // unknown, which MarkTransfers changes.
  std::optional<Time> transfer{};
};

// What keeps the host from launching. kWaiting: it waits for the device.
enum class HostActivity : std::uint8_t { kDataLoading, kAllocator, kWaiting };

struct HostSpan {
  HostActivity activity = HostActivity::kWaiting;
  Time begin{}, end{};
};

// One rank's step. Events may lie outside [begin, end); only instants inside count.
struct RankStep {
  int rank = 0;
  Time begin{}, end{};
  std::vector<StepEvent> events{};
  std::vector<HostSpan> host{};
  Time duration() const { return end - begin; }
};

enum class CauseKind : std::uint8_t {
  kProducts,
  kAttention,
  kOptimizer,
  kElementwise,
  kOtherKernels,
  kCommunication,    // exposed, of one axis
  kCopies,           // exposed
  kImbalance,        // waiting for another member of a collective
  kPipelineBubble,   // waiting for the peer of a message
  kLaunches,         // the device waits for the host to launch
  kDataLoading,      // likewise, while the host loads data
  kAllocatorFlushes  // likewise, while it allocates or frees device memory
};
const char* Name(CauseKind kind);  // "products", "exposed communication", "launches", ...

struct Cause {
  CauseKind kind = CauseKind::kProducts;
  std::string axis{};  // kCommunication
  Time forecast{}, measured{};
  std::int64_t forecast_calls = 0, measured_calls = 0;  // of kernels and communication
  Time difference() const { return measured - forecast; }
};

// The time of the kernels of one name in the measured step.
struct KernelSum {
  std::string name;
  std::int64_t calls = 0;
  Time total;
};

struct StepCauses {
  int rank = 0;            // whose step is described
  std::size_t ranks = 1;   // that were traced
  Time forecast{}, measured{};
  // Those with a difference; the first explains most. With the remainder and `learned` they add up
  // to the difference.
  std::vector<Cause> causes{};
  // What the correction by measured runs adds to the forecast, which no trace shows.
  Time learned{};
  Time remainder{};  // idle in either step, for no reason in the events
  // The rank that others wait for, if imbalance is a cause: the described one.
  std::optional<int> slowest_rank{};
  // Of the kind of the first cause that is a kind of kernels, at most kKernelsNamed.
  std::vector<KernelSum> kernels{};
  std::vector<std::string> notes{};
  Time difference() const { return measured - forecast; }
};
inline constexpr std::size_t kKernelsNamed = 3;

// The forecast's own step as events: those of a class's timeline.
RankStep EventsOf(const forecast::Run& run, const forecast::ClassRun& own);

// Finds how long the data of communication move. Of a collective, as long as on the member that
// waits least, if the steps of several members are known. Of a message, as long as the shortest
// with the same axis and bytes.
void MarkTransfers(std::vector<RankStep>& ranks);

// Requires at least one measured step. Of the measured ranks in the forecast's critical class, or of
// all if none is in it, the one that waits least for others is described. Where its kernels take
// longer than those of the median rank, the difference is imbalance.
StepCauses CausesOf(const forecast::Run& run, std::vector<RankStep> measured);

// The difference of two steps of one rank, both with marked transfers. `forecast.rank` is ignored.
StepCauses DifferenceOf(const RankStep& forecast, const RankStep& measured);

}  // namespace stepcast::validate
