#pragma once

#include <cstdint>

#include "src/lowering/program_builder.h"
#include "src/model/operation.h"
#include "src/program/data_flow.h"

namespace stepcast::lowering {

// What a micro-batch's passes carry in the data flow: a word of 32 bits on each rank, which is made
// from those that messages of other stages and collectives inside layers bring, which goes into
// those that leave, and which gradients are made from. So a message or a collective that is
// missing, late, or on another rank shows in the parameters. All-gathers and messages carry the
// word, sums small integers made of it, which are exact. Without a data flow, or where nothing is
// communicated inside of passes, all calls do nothing.
//
// validate/plain_passes.h says the same without programs.
class PassValues {
 public:
  struct Place {
    int chunks = 1;               // of all stages
    std::int64_t batch_part = 0;  // whose samples the rank trains on
    // Ranks that share layers have one word, as those do whose gradients of whole tensors must come
    // out the same; else what a collective scatters differs from part to part.
    bool one_word = true;
  };
  PassValues(const Place& place, ProgramBuilder& builder) : place_(place), builder_(builder) {}

  // `words`: of the passes that are in flight at once. `communicates`: inside of layers. `splits`:
  // what backward of inputs has come to is what that of weights goes on from.
  void WritePrologue(int words, bool communicates, bool splits);

  // Said of the pass's kernels (ProgramBuilder::With): the first and the last of a forward, and of
  // a backward, which begins with recomputation or where the gradient is there. Messages: the
  // buffer that came from or goes to a neighbour; kNone: none. `chunk`: among those of all stages;
  // `word`: the micro-batch's, of those that are in flight.
  void BeginForward(int chunk, int word, Index received);
  void TurnBack(int chunk, int word);
  void BeginBackward(int chunk, Index received);
  // What leaves the pass: the word as it is.
  void HandOn(Index sent);
  void ContinueBackward(int word);
  // The word of the pass that is written. Who writes two passes in turns sets it at each turn.
  int present() const { return present_; }
  void SetPresent(int word) { present_ = word; }

  // The kernel reads what a collective has brought; writes what one will take.
  void Take(const model::ValueUse& use, Index buffer);
  void Give(const model::ValueUse& use, Index buffer);

  // Where gradients of the present backward take their seed from; no buffer: from rank, step and
  // micro-batch.
  program::Elements seed() const;

 private:
  bool on() const { return words_ != program::kNone; }
  program::Elements Word(int at) const;
  // What a message of at least a word carries; else no place.
  program::Elements Carried(Index received);
  // What has a word of its own at its start.
  Bytes PartOf(const model::ValueUse& use, Index buffer) const;
  // The present pass's word from itself (unless it `begins`) and what has come.
  void Mix(program::Elements received, program::Elements also, std::int64_t salt);
  int BackwardOf(int word) const { return splits_ ? in_flight_ + word : in_flight_; }

  const Place place_;
  ProgramBuilder& builder_;
  // Of micro-batches in flight, and behind them the backward's, or one of each.
  Index words_ = program::kNone;
  bool splits_ = false;
  int in_flight_ = 0;
  int present_ = 0;  // the word of the pass that is written
};

}  // namespace stepcast::lowering
