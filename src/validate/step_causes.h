#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/forecast/forecast.h"

// Explains why a measured step takes longer than its forecast. Every instant of either step belongs
// to one cause, by what the device and the host did then. A cause explains the difference between
// its time in the forecast and in the measured step. Idle time without a visible reason is the
// remainder.
namespace stepcast::validate {

// The activity of an operation on a stream. A message is a send or a receive.
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
  std::string name{};              // of a kernel; of communication, its axis: "data"
  std::string members{};           // of communication: the group's ranks, equal text on its ranks
  Bytes bytes{};                   // of communication
  int step = 0;                    // launched this many steps after the described one
  Time begin{}, end{};             // of communication: from when its stream reaches it
  std::optional<Time> launched{};  // when the host had submitted it; none: unknown, in time
  // The last part of communication, in which data move. Before this part, the operation waits for
  // other ranks. None: not communication, or unknown until MarkTransfers.
  std::optional<Time> transfer{};
};

// The reason why the host does not launch. kWaiting: the host waits for the device.
enum class HostActivity : std::uint8_t { kDataLoading, kAllocator, kWaiting };

struct HostSpan {
  HostActivity activity = HostActivity::kWaiting;
  Time begin{}, end{};
};

// The events of one rank's step. Events may lie outside [begin, end); only instants inside count.
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

// The total time of the kernels of one name in the measured step.
struct KernelSum {
  std::string name;
  std::int64_t calls = 0;
  Time total;
};

struct StepCauses {
  int rank = 0;           // whose step is described
  std::size_t ranks = 1;  // that were traced
  Time forecast{}, measured{};
  // The causes with a difference, largest first. With the remainder and `learned`, the causes add
  // up to the difference.
  std::vector<Cause> causes{};
  // The time that the correction from measured runs adds to the forecast. No trace shows this time.
  Time learned{};
  Time remainder{};  // idle in either step, for no reason in the events
  // The rank for which others wait, if imbalance is a cause: the described rank.
  std::optional<int> slowest_rank{};
  // The kernels of the first cause that consists of kernels; at most kKernelsNamed, all of one
  // kind.
  std::vector<KernelSum> kernels{};
  std::vector<std::string> notes{};
  Time difference() const { return measured - forecast; }
};
inline constexpr std::size_t kKernelsNamed = 3;

// Returns the forecast's own step as events: those of a class's timeline.
RankStep EventsOf(const forecast::Run& run, const forecast::ClassRun& own);

// Sets StepEvent::transfer. If the steps of several members are known, a collective moves data for
// as long as on the member that waits least. A message moves data for as long as the shortest
// message with the same axis and bytes.
void MarkTransfers(std::vector<RankStep>& ranks);

// Finds the causes of the difference. Requires at least one measured step. Describes the rank that
// waits least for others, among the measured ranks of the forecast's critical class, or among all
// if none is in that class. If its kernels take longer than those of the median rank, the
// difference is imbalance.
StepCauses CausesOf(const forecast::Run& run, std::vector<RankStep> measured);

// Returns the difference of two steps of one rank, both with marked transfers. `forecast.rank` is
// ignored.
StepCauses DifferenceOf(const RankStep& forecast, const RankStep& measured);

}  // namespace stepcast::validate
