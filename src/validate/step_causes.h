#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/forecast/forecast.h"

// Explains why a measured step takes longer than its forecast. Every instant of the forecast and of
// the measured step belongs to one cause, by what the device and the host do then. A cause explains
// the difference between its times in the two steps. Idle time without a visible reason is the
// remainder.
namespace stepcast::validate {

// The activity of an operation on a stream. kMessage: the operation is a send or a receive.
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
  // other ranks. None: the operation is not communication, or the part is unknown until
  // MarkTransfers is called.
  std::optional<Time> transfer{};
};

// The reason why the host does not launch anything. kWaiting: the host waits for the device.
enum class HostActivity : std::uint8_t { kDataLoading, kAllocator, kWaiting };

struct HostSpan {
  HostActivity activity = HostActivity::kWaiting;
  Time begin{}, end{};
};

// The events of one rank's step. Events may extend beyond [begin, end); only the time inside
// counts.
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
  kDataLoading,      // the device waits while the host loads data
  kAllocatorFlushes  // the device waits while the host allocates or frees its memory
};
const char* Name(CauseKind kind);  // "products", "exposed communication", "launches", ...

struct Cause {
  CauseKind kind = CauseKind::kProducts;
  std::string axis{};  // kCommunication
  Time forecast{}, measured{};
  std::int64_t forecast_calls = 0, measured_calls = 0;  // of kernels and communication
  Time difference() const { return measured - forecast; }
};

// The total time of all kernels with one name in the measured step.
struct KernelSum {
  std::string name;
  std::int64_t calls = 0;
  Time total;
};

struct StepCauses {
  int rank = 0;           // whose step is described
  std::size_t ranks = 1;  // that were traced
  Time forecast{}, measured{};
  // The causes of the difference, largest first. With the remainder and `learned`, they add up to
  // the difference.
  std::vector<Cause> causes{};
  // The time that the correction by measured runs adds to the forecast. No trace shows this time.
  Time learned{};
  Time remainder{};  // idle in either step, for no reason in the events
  // The rank for which others wait, which is the described rank. Set only if imbalance is a cause.
  std::optional<int> slowest_rank{};
  // The kernels of the first cause that consists of kernels. There are at most kKernelsNamed, all
  // of one kind.
  std::vector<KernelSum> kernels{};
  std::vector<std::string> notes{};
  Time difference() const { return measured - forecast; }
};
inline constexpr std::size_t kKernelsNamed = 3;

// Returns the forecast's own step as events, from the timeline of a class.
RankStep EventsOf(const forecast::Run& run, const forecast::ClassRun& own);

// Sets StepEvent::transfer. If the steps of several members are known, a collective moves data for
// as long as on the member that waits least. A message moves data for as long as the shortest
// message with the same axis and bytes.
void MarkTransfers(std::vector<RankStep>& ranks);

// Finds the causes of the difference. Requires at least one measured step. Describes the rank that
// waits least for others. It is one of the measured ranks of the forecast's critical class. If no
// measured rank is in that class, it is one of all measured ranks. If this rank's kernels take
// longer than the median rank's kernels, the difference is imbalance.
StepCauses CausesOf(const forecast::Run& run, std::vector<RankStep> measured);

// Returns the causes of the difference between two steps of one rank, both with marked transfers.
// `forecast.rank` is ignored.
StepCauses DifferenceOf(const RankStep& forecast, const RankStep& measured);

}  // namespace stepcast::validate
