#pragma once

// How much of a long run is training: a renewal process of failures and checkpoints, in closed
// form.
//
// Failures come at a constant rate, also while the job recovers. After a failure the job recovers
// and goes on from the last checkpoint that a restart can use. A cycle is `interval` seconds of
// work and a save that blocks it. Its checkpoint can be used `background` seconds later, so a
// failure before that goes back one cycle more. With the rate l, recovery R, background B and a
// cycle of L seconds, the expected time from one usable checkpoint to the next is
//
//   T = exp(l (R + B)) (exp(l L) - 1) / l
//
// which is Daly's formula (Daly 2006, Future Generation Computer Systems 22) where B = 0: a period
// of length x without a failure takes (exp(l x) - 1) / l on average, a cycle that fails, which has
// the probability 1 - exp(-l L), needs such a period of length R + L + B, and until it ends or
// fails (1 - exp(-l L)) / l pass.
namespace stepcast::forecast {

// All in seconds.
struct Failures {
  double rate = 0;      // of the whole job, per second; 0: none
  double recovery = 0;  // from a failure until work goes on
};

struct CheckpointCost {
  double blocking = 0;    // work stands still so long
  double background = 0;  // from then until a restart can use the checkpoint
};

// Parts of the time of a run; they add up to 1.
struct TimeShares {
  double work = 1;      // that is kept
  double saving = 0;    // work waits for a checkpoint
  double recovery = 0;  // after failures
  double rework = 0;    // work that a failure made void
  double waiting = 0;   // for the repair of nodes, where spares have run out (spare_nodes.h)
};

// `interval`: seconds of work from one save to the next, above 0. A save begins after the one
// before has been written, so shorter intervals than that wait.
TimeShares SharesOf(double interval, const Failures& failures, const CheckpointCost& cost);

// The interval with the largest share of work, at most `longest`.
double BestInterval(const Failures& failures, const CheckpointCost& cost, double longest);

// The approximations of Young 1974 (Communications of the ACM 17): sqrt(2 d M) for a cost d and a
// mean time between failures M, and of Daly 2006, equation 37. Both leave the background out.
// Require a rate above 0.
double YoungInterval(const Failures& failures, const CheckpointCost& cost);
double DalyInterval(const Failures& failures, const CheckpointCost& cost);

}  // namespace stepcast::forecast
