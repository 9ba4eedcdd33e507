#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/base/time.h"
#include "src/engine/shared_resources.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/simulate/company.h"
#include "src/simulate/schedule.h"
#include "src/simulate/simulate.h"

// One rank that runs by itself: its collectives use what is its own, and nobody else has to be
// waited for. The rules are those of simulate.h, and the times those of ProgramRun, event by event;
// but few things are under way at once, so the next event is found by looking at all of them, and
// chains of operations (schedule.h) pass in a few additions while nothing else begins or ends.
namespace stepcast::simulate {

class SoloRun {
 public:
  // The timeline stays as it is until the next run, or until taken. No barrier, no carriage.
  const program::Timeline& Go(const RankClass& rank, const Options& options);
  program::Timeline Take() { return std::move(timeline_); }
  std::span<const KernelRow> rows() const { return rows_; }
  // As Simulator has them.
  std::span<const Time> segment_begins() const {
    const std::span<const Time> all(segment_begins_);
    return all.subspan(std::min<std::size_t>(schedule_->prologue_segments, all.size()));
  }
  std::span<const EndRecord> ends() const { return ends_; }
  void Expand(const KernelRow& row, std::vector<KernelRun>& kernels) const;
  void AddDurations(const KernelRow& row, std::span<Time> by_kernel) const;
  const Repetition* repetition() const { return repetition_ ? &*repetition_ : nullptr; }

 private:
  using SharedWork = engine::SharedResources::Work;

  // What is under way: on a stream, or of a communicator. Streams come first.
  using Runner = std::uint32_t;
  enum class Activity : std::uint8_t {
    kNone,
    kLooksLater,  // a stream: its next item will have been issued at `next`
    kLatency,     // it begins to share at `next`
    kShares,      // its end is `next` as long as nobody else comes or goes
    kFixed,       // it uses nothing, and ends at `next`
  };
  struct UnderWay {
    Time next = Time::Max();
    Activity activity = Activity::kNone;
    bool settled = false;  // kShares: `rate` and what follows are known
    std::uint32_t profile = 0;
    Time work;
    std::uint64_t rate = 0;
    SharedWork left = 0;  // at `since`
    Time since;
  };

  enum class StreamState : std::uint8_t {
    kReady,         // to be looked at
    kUnderWay,      // runs an operation or a collective, or looks later
    kAwaitsHost,    // its next item's issue time is not known: the host is held up
    kAwaitsRecord,  // stands at a wait
    kAtCollective,  // waits for its communicator
    kDone,
  };
  struct Stream {
    std::uint32_t item = 0;
    std::uint32_t pass = 0;  // 0: the prologue; s + 1: step s
    StreamState state = StreamState::kReady;
    bool listed = false;
    bool gave_way = false;  // to others that stood in line
    Time issued;            // of the operation under way or at its communicator
    Time ready;             // ... and when it was let go; when a wait was reached
    Time start;
    WaitFor wait_for;                    // kAtCollective: communicator, number
    std::uint32_t next_waiting = kNone;  // another stream that waits for the same
  };
  struct Communicator {
    std::uint32_t current = 0;      // how many collectives have finished
    std::uint32_t running = kNone;  // the stream whose collective is under way
    std::uint32_t waiting = kNone;  // streams that have reached later ones
  };

  // All that decides what happens from now on, as if now were time 0: two states that differ in
  // positions alone go on alike as long as what is at these positions is alike.
  struct State {
    struct Position {
      std::uint32_t item = 0;
      std::uint32_t pass = 0;
    };
    std::int64_t pass = -1;  // the last one that has ended; -1: this is no state
    Time time;
    std::vector<Position> positions;      // by stream
    std::vector<std::uint32_t> finished;  // by communicator: collectives
    std::uint32_t host_pass = 0;
    std::uint32_t host_segment = 0;
    bool host_waits = false;
    Time host_clock;
    std::size_t segments_begun = 0;
    std::size_t operations = 0, memory = 0, tasks = 0;  // recorded
    std::vector<std::int64_t> device;
  };
  // A layer that is under way, or a micro-batch.
  struct BegunLayer {
    std::uint32_t stream = 0;  // whose items it is made of, for this purpose
    std::uint32_t pass = 0;
    std::uint32_t next = 0;  // the item with which the next one begins
    State state;             // at its own begin
  };
  struct BegunPhase {
    std::uint32_t stream = 0;
    std::uint32_t item = 0;
    State state;  // in the step that has come to it last
  };
  // How far a stream's items go on in layers that are alike. It follows from the schedule, but for
  // waits that have to be over before the layers begin.
  struct Walk {
    std::uint32_t stream = 0;
    std::uint32_t first = 0;      // item
    bool first_step = false;      // which waits for the prologue
    std::uint32_t alike = 0;      // items
    std::uint32_t distances = 0;  // walk_distances_ from there on
    std::uint32_t waits = 0;      // walk_waits_ from there on, ...
    std::uint32_t waits_end = 0;  // ... to there
  };
  // By how much the items of a stream differ from those that are alike.
  struct Distance {
    std::uint32_t items = 0;
    std::uint32_t segments = 0;
    Time issued;
    Index instructions = 0;
  };

  void SetUp();
  Runner NextRunner() const;
  void Happen(Runner runner);

  // The host. It is followed only as far as somebody asks: when a segment begins depends on records
  // alone, and a record cannot be reached again before the host has passed the wait for it.
  bool KnowsSegment(std::uint32_t segment) {
    return segment < segment_begins_.size() || ReachSegment(segment);
  }
  bool ReachSegment(std::uint32_t segment);
  // That of an item, as segment_begins_ counts.
  std::uint32_t SegmentOf(std::uint32_t item, std::uint32_t pass) const {
    const std::uint32_t segment = schedule_->items[item].segment;
    return pass == 0 ? segment : segment + (pass - 1) * step_segments_;
  }
  bool AdvanceHost();
  void BeginSegment();
  void EndPass(std::uint32_t pass, Time end);
  void EndPasses();

  // Streams.
  void List(std::uint32_t stream);
  void LookAtListed();
  void Look(std::uint32_t stream);
  bool RunAhead(std::uint32_t stream);
  // Of so many operations those that have been issued by then; the segment of all began at `begin`.
  static std::uint32_t IssuedOf(const Item& first, std::uint32_t count, Time begin, Time time) {
    const Item* const items = &first;
    if (begin + items[count - 1].issued <= time) return count;
    return static_cast<std::uint32_t>(std::upper_bound(items, items + count, time,
                                                       [begin](Time time, const Item& item) {
                                                         return time < begin + item.issued;
                                                       }) -
                                      items);
  }
  // Of `count` operations of a chain, from this one on, how many end beside `company_` before it is
  // disturbed. `undisturbed` says whether it is by so many, given the offsets from the first one
  // on. Mostly it is by all of them or by few: `first` are looked at first.
  template <typename Undisturbed>
  std::uint32_t Most(const Item& item, std::uint32_t count, std::uint32_t first, Offsets& offsets,
                     const Undisturbed& undisturbed) {
    std::uint32_t most = 0, tried = 0;
    do {
      const std::uint32_t next = std::min(count, std::max(first, 4 * tried));
      offsets = companies_.Beside(company_, item.chain, item.place + next);
      tried = std::min(count, offsets.known - item.place);
      if (!undisturbed(tried)) break;
      most = tried;
    } while (most < count);
    while (tried - most > 1) {
      const std::uint32_t middle = most + (tried - most) / 2;
      (undisturbed(middle) ? most : tried) = middle;
    }
    return most;
  }
  // So many operations of a chain have run one after the other from `start` on.
  void CompleteChunk(std::uint32_t s, std::uint32_t count, Time start, const Offsets& offsets,
                     bool& row_open) {
    Stream& stream = streams_[s];
    const Item& first = schedule_->items[stream.item];
    Begun(stream.pass, start);
    if (Recorded(stream.pass, first)) RecordChunk(s, count, start, offsets, row_open);
    now_ = start + (offsets.ends[first.place + count] - offsets.ends[first.place]);
    stream.item += count - 1;
    NextItem(s);
  }
  void RecordChunk(std::uint32_t stream, std::uint32_t count, Time start, const Offsets& offsets,
                   bool& row_open);
  // Whether a stream is past a record as often as is waited for.
  bool Reached(const WaitFor& wait_for) const {
    if (wait_for.count == 0) return true;
    const EventRecord& record = schedule_->records[wait_for.slot];
    return IsPast(streams_[record.stream], record.item, wait_for);
  }
  template <typename Position>
  bool IsPast(const Position& position, std::uint32_t item, const WaitFor& wait_for) const {
    const std::uint32_t pass = wait_for.slot < schedule_->prologue_records ? 0 : wait_for.count;
    return position.pass > pass || (position.pass == pass && position.item > item);
  }
  bool Reached(const State& state, const WaitFor& wait_for) const {
    if (wait_for.count == 0) return true;
    const EventRecord& record = schedule_->records[wait_for.slot];
    return IsPast(state.positions[record.stream], record.item, wait_for);
  }
  bool PassesRecord(std::uint32_t stream, const Item& item);
  void PassRecord(std::uint32_t stream, const Item& item);
  // The operation that the stream runs is over.
  void Complete(std::uint32_t s) {
    const Stream& stream = streams_[s];
    if (Recorded(stream.pass, schedule_->items[stream.item])) AddRecord(s, stream.item, now_);
    NextItem(s);
  }
  void AddRecord(std::uint32_t stream, std::uint32_t item, Time end);
  void NextItem(std::uint32_t s) {
    Stream& stream = streams_[s];
    const StreamRange& range = schedule_->streams[s];
    ++stream.item;
    if (stream.item == (stream.pass == 0 ? range.step : range.end)) NextPass(s);
  }
  void NextPass(std::uint32_t stream);
  void ReachCollective(std::uint32_t stream, const Item& item);
  // Which of its communicator's a collective is, from the prologue's first on.
  std::uint32_t NumberOf(const Item& item, std::uint32_t pass) const {
    if (pass == 0) return item.other;
    const std::uint32_t c = rank_.program->collectives[item.target].communicator;
    return schedule_->prologue_collectives[c] + (pass - 1) * schedule_->step_collectives[c] +
           item.other;
  }
  void StartCollective(std::uint32_t stream, std::uint32_t communicator);

  // Work. True if it takes no time and is over.
  bool Start(Runner runner, Time start, const Cost& cost);
  bool NothingHappensUntil(Time time);
  void BeginSharing(Runner runner);
  void StopSharing(Runner runner);
  void Settle();
  SharedWork LeftOf(const UnderWay& work) const {
    const SharedWork done = engine::SharedResources::Done(now_ - work.since, work.rate);
    return work.left - std::min(done, work.left);
  }

  // Beside collectives that follow each other (solo_beside.cc).
  Runner OnlyCollective() const;
  Time NextOfOthers(Runner runner) const;
  bool RunBeside(std::uint32_t stream, Runner runner);
  bool EndBeside(std::uint32_t stream, Runner runner, Time until);
  void ShareAlone(Runner runner);
  bool IsPassed(const Item& item, std::uint32_t pass, Time issued, Time time) const;
  void Pass(Stream& stream, const Item& item, Time issued);
  bool IsFollowed(std::uint32_t communicator, Time end);
  void FollowWithNext(std::uint32_t communicator);

  // Repetition of steps (solo_steps.cc).
  bool StepRepeats();
  bool PhaseRepeats(std::uint32_t stream);
  std::optional<bool> ComesAgain(const State& before, const State& after) const;
  Time EndOf(std::int64_t pass) const {
    return pass == 0 ? prologue_end_ : timeline_.step_ends[static_cast<std::size_t>(pass - 1)];
  }
  void FillEnds(std::size_t step, Time interval);
  void RecordAgain(const State& before, const State& after);
  void TakeState(State& state) const;
  bool HostIsAlike(const State& before, const State& after, std::uint32_t first_segment,
                   std::uint32_t segments) const;

  // Of layers (solo_layers.cc).
  void SkipLayers(std::uint32_t stream);
  std::uint32_t LayersAhead();
  std::uint32_t ItemsAlike(std::uint32_t stream);
  const Walk& WalkOf(std::uint32_t stream);
  bool HoldsUpHost(const State& state, const WaitFor& wait_for) const;
  std::uint32_t SegmentsAlike(std::uint32_t distance) const;
  bool WaitFollows(const WaitFor& before, const WaitFor& after) const;
  void Skip(std::uint32_t layers);
  void RecordLayers(std::uint32_t layers);
  void KnowWhenReached(std::uint32_t layers);

  bool InRecordedStep(std::uint32_t pass) const {
    return pass > static_cast<std::uint32_t>(options_.first_recorded_step);
  }
  bool KernelsRecorded(std::uint32_t pass) const {
    return options_.records <= Records::kRowsOfKernels && InRecordedStep(pass);
  }
  bool WaitsRecorded(std::uint32_t pass) const { return KernelsRecorded(pass); }
  bool Recorded(std::uint32_t pass, const Item& item) const {
    return KernelsRecorded(pass) ||
           (options_.records < Records::kStepEnds && InRecordedStep(pass) && !item.is_kernel);
  }
  void Begun(std::uint32_t pass, Time start) {
    if (pass > last_begun_) last_begins_ = Time::Max();
    if (pass >= last_begun_) last_begins_ = std::min(last_begins_, start);
    last_begun_ = std::max(last_begun_, pass);
  }
  void FinishTimeline();
  void RecordWhatIsUnderWay();

  RankClass rank_;
  Options options_;
  std::uint32_t passes_ = 0;  // the prologue and the steps
  Time now_;
  Schedule own_schedule_;
  const Schedule* schedule_ = nullptr;

  // The host.
  bool host_waits_ = false;
  std::uint32_t host_pass_ = 0;
  std::uint32_t host_segment_ = 0;  // the next to begin
  Time host_clock_;
  WaitFor host_wait_for_;
  std::uint32_t step_segments_ = 0;
  std::vector<Time> segment_begins_;  // as far as known: the prologue's, then step by step
  std::vector<program::OperationRecord> tasks_;
  std::vector<program::WaitRecord> host_wait_records_;

  std::vector<Stream> streams_;
  std::vector<UnderWay> under_way_;  // by runner
  std::vector<Communicator> communicators_;
  std::vector<Time> reached_at_;        // by record: when last
  std::vector<std::uint32_t> waiting_;  // by record: the first stream that waits for it
  std::vector<std::uint32_t> ready_;
  std::size_t looked_at_ = 0;  // so many of `ready_`

  Companies companies_;
  std::vector<Runner> sharers_;  // ascending
  std::uint32_t company_ = 0;    // theirs, once settled
  bool unsettled_ = false;

  std::vector<std::uint32_t> still_in_pass_;  // by pass: streams
  std::uint32_t next_to_end_ = 0;             // the first pass that has not ended
  std::uint32_t last_begun_ = 0;              // the last pass of which something has started
  Time last_begins_;                          // ... and when
  Time prologue_end_;
  State state_, state_before_;
  std::array<BegunPhase, 3> phases_;  // the first ones
  std::size_t phase_count_ = 0;
  bool skips_layers_ = false;
  std::array<BegunLayer, 3> begun_;
  std::size_t nested_ = 0;           // so many of begun_, each within the one before
  State layer_, next_;               // when the layer at hand began, and when it ended
  std::vector<Distance> distances_;  // by stream: from one layer to the next
  std::vector<std::uint32_t> first_waiting_;
  std::uint64_t walked_ = 0;  // the schedule's id
  std::vector<Walk> walks_;
  std::vector<std::uint32_t> walk_distances_;  // items by stream, then collectives by communicator
  std::vector<std::uint32_t> walk_waits_;      // items of waits
  Time held_up_by_issue_;  // the latest time at which a stream stood because of it
  std::optional<Repetition> repetition_;

  std::vector<KernelRow> rows_;
  std::vector<EndRecord> ends_;  // kEnds: in place of operations
  program::Timeline timeline_;
};

}  // namespace stepcast::simulate
