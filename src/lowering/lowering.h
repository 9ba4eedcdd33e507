#pragma once

#include <optional>
#include <span>
#include <vector>

#include "src/lowering/buckets.h"
#include "src/lowering/lower_options.h"
#include "src/lowering/program_sizes.h"
#include "src/model/layer_work.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

// Turns a scenario into the step program of a rank: plans, frameworks and ZeRO are spent here.
namespace stepcast::lowering {

// The program of `options.rank`; data parallelism treats all ranks alike, so rank 0's stands for
// all where only times matter. One file per technique writes it (reference.cc, ddp.cc, fsdp1.cc,
// ...). The scenario must be legal, the rank one of its data-parallel ranks.
program::Program Lower(const scenario::Scenario& scenario, const LowerOptions& options = {});

// Whether anything but process groups depends on numbers of ranks in the plan's programs: not where
// every rank keeps and updates everything.
bool SizesDependOnRanks(const plan::Plan& plan);

// Changes `program` into Lower's of the scenario, for a part of the time. It must have been lowered
// for a scenario with the same model and a plan that differs from this one in ranks alone (data,
// shard_group_size, global_batch_size), and `works` be model::BuildWork of both. False if their
// instructions are not the same, too; the program is then spoilt. What is not changed are the
// extents of its buffer uses (Program::uses), which only the validator and the runtime read.
// `sizes`: what was written down when it was lowered (LowerOptions::sizes). With complete ones its
// tables alone are gone through, else the technique runs once more and every instruction is
// compared.
bool Resize(const scenario::Scenario& scenario, const std::vector<model::LayerWork>& works,
            program::Program& program, ProgramSizes* sizes = nullptr);

// Whether ReplaceWork can change the plan's programs from `before` to `after`, model::BuildWork of
// both of one model: where a micro-batch of other size takes the same instructions, and its size
// shows nowhere but in the work.
bool CanReplaceWork(const plan::Plan& plan, const std::vector<model::LayerWork>& before,
                    const std::vector<model::LayerWork>& after);

// Makes `program`, lowered for a plan that differs from the scenario's in micro_batch_size and
// sequence_length, one with these works. CanReplaceWork says that it can.
void ReplaceWork(const scenario::Scenario& scenario, const std::vector<model::LayerWork>& works,
                 program::Program& program);

// The buckets of the plan, where that is all that its bucket sizes are for: plans that differ in
// those, but cut the same buckets, have the same programs. `works` is model::BuildWork of the
// scenario.
std::optional<std::vector<Bucket>> GradientBuckets(const scenario::Scenario& scenario,
                                                   std::span<const model::LayerWork> works);

// Whether programs of the plan can say what they do to values (LowerOptions::data_flow), and so be
// executed: not where states are on the host, or what is sent is quantised or of low rank.
bool DescribesValues(const plan::Plan& plan);

// The process groups of the program of `rank`, in the order of `program`, which is that of any
// rank: all that is different between ranks' programs without data flow.
std::vector<program::ProcessGroup> GroupsOf(const program::Program& program, int rank);

}  // namespace stepcast::lowering
