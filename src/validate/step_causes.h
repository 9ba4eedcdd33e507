#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/forecast/forecast.h"

// Explains why a measured step takes longer than its forecast. Every instant of both steps is
// assigned to one cause, by the activity of device and host. A cause explains the difference
// between the cause's times in the two steps. Idle time without a known reason is the remainder.
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
  std::string name{};              // name of a kernel; for communication, its axis: "data"
  std::string members{};           // ranks of the communication's group, as text
  Bytes bytes{};                   // size of the communication
  int step = 0;                    // step of the launch, relative to the described step
  Time begin{}, end{};             // the communication begins when the stream reaches the operation
  std::optional<Time> launched{};  // when the host submitted the operation; not set: assumed
                                   // to be early enough
  // The duration of the last part of communication, in which data is transferred. Before this part,
  // the operation waits for other ranks. Not set: the operation is not communication, or
  // MarkTransfers was not called.
  std::optional<Time> transfer{};
};

// The reason why the host does not launch work. kWaiting: the host waits for the device.
enum class HostActivity : std::uint8_t { kDataLoading, kAllocator, kWaiting };

struct HostSpan {
  HostActivity activity = HostActivity::kWaiting;
  Time begin{}, end{};
};

// The events of one rank's step. Events may extend beyond [begin, end); only the time within this
// interval is used.
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
  kCommunication,    // exposed communication of one axis
  kCopies,           // exposed copies
  kImbalance,        // waiting for another member of a collective
  kPipelineBubble,   // waiting for the peer of a message
  kLaunches,         // the device waits for the host to launch
  kDataLoading,      // the device waits while the host loads data
  kAllocatorFlushes  // the device waits while the host allocates or frees device memory
};
const char* Name(CauseKind kind);  // "products", "exposed communication", "launches", ...

struct Cause {
  CauseKind kind = CauseKind::kProducts;
  std::string axis{};  // set only for kCommunication
  Time forecast{}, measured{};
  std::int64_t forecast_calls = 0, measured_calls = 0;  // numbers of kernels or communication calls
                                                        // operations
  Time difference() const { return measured - forecast; }
};

// The total time of all kernels with one name in the measured step.
struct KernelSum {
  std::string name;
  std::int64_t calls = 0;
  Time total;
};

struct StepCauses {
  int rank = 0;           // the rank whose step is described
  std::size_t ranks = 1;  // number of traced ranks
  Time forecast{}, measured{};
  // The causes of the difference between the steps, largest cause first. The differences of all
  // causes, the remainder and `learned` add up to the difference of the steps.
  std::vector<Cause> causes{};
  // The time that the correction by measured runs adds to the forecast. No trace contains this
  // time.
  Time learned{};
  Time remainder{};  // difference of idle times that no event explains
  // The described rank, if other ranks wait for this rank. Set only if imbalance is a cause.
  std::optional<int> slowest_rank{};
  // The kernels of the largest cause that consists of kernels. At most kKernelsNamed kernels.
  std::vector<KernelSum> kernels{};
  std::vector<std::string> notes{};
  Time difference() const { return measured - forecast; }
};
inline constexpr std::size_t kKernelsNamed = 3;

// Returns the forecast step as events, from the timeline of a rank class.
RankStep EventsOf(const forecast::Run& run, const forecast::ClassRun& own);

// Sets StepEvent::transfer. If the steps of several members are known, the transfer of a collective
// has the duration of the collective on the member that waits least. The transfer of a message has
// the duration of the shortest message with the same axis and bytes.
void MarkTransfers(std::vector<RankStep>& ranks);

// Finds the causes of the difference between the measured and the forecast step. Both steps are
// from the rank that waits least for other ranks. The rank is chosen among the measured ranks of
// the forecast's critical class or, if this class was not measured, among all measured ranks. If
// this rank's kernels take longer than the kernels of the median rank, the excess is imbalance.
// `measured` must not be empty.
StepCauses CausesOf(const forecast::Run& run, std::vector<RankStep> measured);

// Returns the causes of the difference between two steps of one rank, both with marked transfers.
// `forecast.rank` is ignored.
StepCauses DifferenceOf(const RankStep& forecast, const RankStep& measured);

}  // namespace stepcast::validate
