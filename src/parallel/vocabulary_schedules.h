#pragma once

#include <optional>
#include <string_view>

#include "src/parallel/pipeline_schedule.h"
#include "src/parallel/vocabulary.h"

// Schedules of pipelines whose stages share out the vocabulary (Yeung et al. 2024, arXiv
// 2411.05288; sail-sg/VocabularyParallelism): each stage has a part of the words of the input and
// of the output layer, and passes E, S, T and G of every micro-batch beside those of its blocks.
namespace stepcast::parallel {

// The schedule of this name with the vocabulary shared out; nothing: there is none. The 1F1B ones
// follow the order of megatron/core/pipeline_parallel/vocab_parallel_schedule.py and, interlaced,
// interlaced_schedule.py there, with a backward twice as long as a forward:
//  * vocab_1 and vocab_2 begin with P-s+1 forwards (vocab_1: one more) and then run a forward, a
//    backward, T of one micro-batch and S of the next by turns: 1f1b's micro-batches in flight and
//    two more, or one.
//  * interlaced runs 3P/2-s forwards ahead.
// v_half with vocab_1 or vocab_2 has its building block's backwards two intervals, or one, later
// (section 5.2, appendix D), S an interval before T.
std::optional<PipelineSchedule> ScheduleWithVocabulary(std::string_view name, Vocabulary vocabulary,
                                                       int stages, int micro_batches);
bool HasSchedule(std::string_view name, Vocabulary vocabulary);
// The names of schedules that go with it: "1f1b, v_half".
std::string_view SchedulesWith(Vocabulary vocabulary);

}  // namespace stepcast::parallel
