#pragma once

#include <cstddef>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/lowering/pipeline_stage.h"
#include "src/lowering/program_builder.h"
#include "src/lowering/stage_messages.h"
#include "src/parallel/vocabulary.h"

namespace stepcast::lowering {

// What the stages of a pipeline that share out the vocabulary communicate (arXiv 2411.05288;
// sail-sg/VocabularyParallelism, core/pipeline_parallel/vocab_parallel_schedule.py,
// interlaced_schedule.py), each kind on a stream and a communicator of its own:
//  * E: rows of the words are added up (all-reduce); the first chunk takes the sum;
//  * the last chunk's output is broadcast, and S takes it;
//  * each token's largest logit, sum of exponentials and target's logit (all-reduce), from S to T;
//  * the gradient of the last chunk's output is added up (all-reduce, as NCCL's reduce burdens one
//    rank), behind T (vocab_1) or S (vocab_2); the last chunk's backward takes the sum;
//  * the gradient of the first chunk's input is broadcast, and G takes it.
// Beside the passes: a broadcast is received from the pass over blocks ahead of the taker on.
// `interlaced`: the broadcasts and the sums of rows are waited for right away; the output layer's
// sums are its own operations.
class VocabularyCollectives {
 public:
  struct Shapes {
    Bytes embedding;   // the first chunk's input of a micro-batch
    Bytes hidden;      // the last chunk's output
    Bytes statistics;  // three FP32 numbers a token
  };
  VocabularyCollectives(parallel::Vocabulary vocabulary, const PipelineStage& stage,
                        const StageMessages::Stage& messages, const Shapes& shapes,
                        ProgramBuilder& builder);

  // `inputs`: [chunk][slot] where received activations go. Without a shared vocabulary nothing, as
  // are all other calls.
  void WritePrologue(std::vector<std::vector<Index>> inputs);

  // The stream carries what is communicated beside passes.
  bool CarriesBeside(StreamId stream) const;

  // Around a pass, as StageMessages has them.
  void BeforePass(std::size_t pass);
  void AwaitInput(std::size_t pass);
  void AfterPass(std::size_t pass);

  // What the last kernel of the pass writes for others, allocated here.
  struct Output {
    Index buffer = program::kNone;
    bool sum = false;  // it is added up, else sent as it is
    DataType type = DataType::kBf16;
  };
  std::vector<Output> AllocateOutputs(std::size_t pass);
  // What a backward reads that has come from others; kNone: nothing.
  Index Received(std::size_t pass) const;

 private:
  enum class Kind : std::uint8_t { kRows, kHidden, kStatistics, kGradients, kInputGradients };
  static constexpr std::size_t kKinds = 5;
  // One kind.
  struct Link {
    StreamId stream = 0;
    Index collective = program::kNone;
    Index ready = program::kNone;
    std::vector<Index> done{};  // events by slot of the taker
    Bytes bytes{};
    DataType type = DataType::kBf16;
    bool broadcasts = false;
  };

  bool on() const { return vocabulary_ != parallel::Vocabulary::kEnds; }
  bool waits() const { return vocabulary_ == parallel::Vocabulary::kInterlaced; }
  const Link& At(Kind kind) const { return links_[static_cast<std::size_t>(kind)]; }
  Link& At(Kind kind) { return links_[static_cast<std::size_t>(kind)]; }
  bool Forward(std::size_t pass) const {
    return messages_.passes[pass].task == parallel::Task::kForward;
  }
  bool Weights(std::size_t pass) const {
    return messages_.passes[pass].task == parallel::Task::kBackwardWeight;
  }
  // Of the pass's chunk.
  bool OfInput(std::size_t pass) const { return messages_.chunk_of[pass] == 0; }
  bool OfOutput(std::size_t pass) const {
    return messages_.chunk_of[pass] + 1 == messages_.chunks.size();
  }
  bool OfFirst(std::size_t pass) const { return messages_.passes[pass].chunk == 0; }
  bool OfLast(std::size_t pass) const { return messages_.passes[pass].chunk + 1 == block_chunks_; }
  // S with vocab_2, T with vocab_1.
  bool GivesGradients(std::size_t pass) const {
    return OfOutput(pass) && !waits() &&
           Forward(pass) == (vocabulary_ == parallel::Vocabulary::kVocab2);
  }
  int slot(std::size_t pass) const { return messages_.slots[pass]; }
  int gradient_slot(std::size_t pass) const { return messages_.gradient_slots[pass]; }
  std::size_t taker(std::size_t pass) const { return messages_.takers[pass]; }
  // Where the pass's input, or the gradient that it reads, is.
  Index InputOf(std::size_t pass) const;

  void AddLink(Kind kind, const char* name, Bytes bytes, DataType type, bool broadcasts, int root,
               int slots);
  // Receives what another stage broadcasts for the pass.
  void Receive(std::size_t pass);
  void Run(Kind kind, Index buffer, int slot);
  void AddUp(std::size_t pass, Kind kind, Index buffer);

  const parallel::Vocabulary vocabulary_;
  const PipelineStage& stage_;
  const StageMessages::Stage& messages_;
  const Shapes shapes_;
  ProgramBuilder& builder_;
  int block_chunks_ = 0;
  bool has_first_ = false, has_last_ = false;  // chunks of the stage
  std::vector<Link> links_;
  std::vector<std::vector<Index>> inputs_;
  // What is added up and taken on another stage.
  Index rows_ = program::kNone, gradients_ = program::kNone;
  std::vector<Index> statistics_;           // by slot of the output layer
  std::vector<Index> received_gradients_;   // by gradient slot of the last chunk, if it is here
  std::vector<Index> gradients_of_inputs_;  // by gradient slot of the input layer
};

}  // namespace stepcast::lowering
