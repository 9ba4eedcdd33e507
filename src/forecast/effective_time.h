#pragma once

// The fraction of a long run that is training, from a renewal process of failures and checkpoints
// in closed form.
//
// Failures occur at a constant rate, also while the job recovers. After a failure the job recovers
// and continues from the last checkpoint that a restart can use. A cycle consists of `interval`
// seconds of work and a save that blocks work. The checkpoint is usable `background` seconds later;
// a failure before that loses one more cycle. With the failure rate l, recovery R, background B and
// a cycle of L seconds, the expected time from one usable checkpoint to the next is
//
//   T = exp(l (R + B)) (exp(l L) - 1) / l
//
// This is Daly's formula (Daly 2006, Future Generation Computer Systems 22) if B = 0. A period of
// length x without a failure takes (exp(l x) - 1) / l on average. A cycle fails with probability 1
// - exp(-l L), and then needs such a period of length R + L + B. A cycle lasts (1 - exp(-l L)) / l
// until it ends or fails.
namespace stepcast::forecast {

// All in seconds.
struct Failures {
  double rate = 0;      // of the whole job, per second; 0: none
  double recovery = 0;  // from a failure until work continues
};

struct CheckpointCost {
  double blocking = 0;    // time for which a save stops work
  double background = 0;  // from then until a restart can use the checkpoint
};

// The parts of a run's time, as fractions that add up to 1.
struct TimeShares {
  double work = 1;      // work that is not lost
  double saving = 0;    // work waits for a checkpoint to be saved
  double recovery = 0;  // recovery after failures
  double rework = 0;    // work lost in failures and done again
  double waiting = 0;   // waiting for the repair of nodes when no spares are left (spare_nodes.h)
};

// `interval`: seconds of work from one save to the next, above 0. A save begins only when the
// previous one has been written, so with shorter intervals work waits.
TimeShares SharesOf(double interval, const Failures& failures, const CheckpointCost& cost);

// The interval with the largest share of work, at most `longest` seconds.
double BestInterval(const Failures& failures, const CheckpointCost& cost, double longest);

// The approximations of Young 1974 (Communications of the ACM 17): sqrt(2 d M) for a cost d and a
// mean time between failures M, and of Daly 2006, equation 37. Both leave the background out.
// Require a rate above 0.
double YoungInterval(const Failures& failures, const CheckpointCost& cost);
double DalyInterval(const Failures& failures, const CheckpointCost& cost);

}  // namespace stepcast::forecast
