#pragma once

// Published figures about failures of large jobs and about checkpoints, used as defaults by
// `run-time`. Each figure has its most favorable, its likely and its least favorable value.
//
//   Llama 3    Llama Team 2024, arXiv 2407.21783: 16,384 H100, 54 days, 466 interruptions, 419 of
//              them unexpected, 78 % of these by hardware; more than 90 % effective
//   RSC        Kokolis et al. 2024, arXiv 2410.21680 (HPCA 2025): two clusters of A100, 11 months
//   BLOOM      bigscience-workshop/bigscience@e726b15982fa train/tr11-176B-ml/chronicles.md: 48
//              nodes of 8 A100
//   OPT        OPT-175B on 124 nodes of 8 A100: glennklockwood.com/garden/job-reliability
//   ByteCheckpoint  arXiv 2407.20143 v4 (NSDI 2025), Table 8: a model of 405B on 8,960 GPUs
namespace stepcast::forecast {

struct Published {
  double best = 0, likely = 0, worst = 0;
  bool given = false;  // given by the user: all three values are equal
};

inline constexpr double kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;

// Mean time between failures of eight GPUs and their host, in seconds: 2.34 failures in 1,000
// node-days (RSC-2), 327 in 54 days of 2,048 nodes (Llama 3, hardware), 6.5 in 1,000 (RSC-1).
inline constexpr Published kNodeMtbf = {kDay / 2.34e-3, 54 * kDay * 2048 / 327, kDay / 6.5e-3};
inline constexpr double kGpusOfPublishedNode = 8;

// Mean time between a job's other interruptions, whatever its size: three hangs nine days apart
// (BLOOM); 139 in 54 days (Llama 3); and one each 7.5 h minus failures of nodes (OPT). For
// comparison, jobs of 1,024 GPUs on RSC-1 failed each 7.9 h, which gives 10.9 h.
inline constexpr Published kJobMtbf = {9 * kDay, 54 * kDay / 139,
                                       1 / (1 / (7.5 * kHour) - 124 / kNodeMtbf.likely)};

// Seconds from a failure until the job loads its checkpoint, if a program restarts it. RSC states 5
// to 20 minutes for detection, scheduling and start; the likely value is their geometric mean.
inline constexpr Published kRestart = {5 * kMinute, 10 * kMinute, 20 * kMinute};

// Further seconds until somebody notices, if people restart the job. NCCL's timeout in PyTorch is
// 10 minutes; four losses of BLOOM took 10.6 h on average. The likely value is their geometric
// mean.
inline constexpr Published kUnattended = {10 * kMinute, 80 * kMinute, 10.6 * kHour};

// Storage bandwidth of a whole job, in bytes per second: 5.67 TB (14 bytes per parameter) saved in
// 51.06 s (ByteCheckpoint); 2.3 TB saved in 40 s (BLOOM); 5.67 TB loaded in 129.49 s
// (ByteCheckpoint).
inline constexpr Published kStorage = {5.67e12 / 51.06, 2.3e12 / 40, 5.67e12 / 129.49};
// Maximum storage bandwidth of one node, in bytes per second: BLOOM's rate divided by its 48 nodes.
inline constexpr double kNodeStorage = 2.3e12 / 40 / 48;

// Seconds for which an asynchronous save blocks the step, in addition to the copy to host memory
// (ByteCheckpoint: 0.59 s for 0.6 GB per GPU). Below: the rate of that copy per GPU, in bytes per
// second (PCIe 4.0, pinned memory; general knowledge).
inline constexpr double kAsyncBlocking = 0.59;
inline constexpr double kHostCopy = 25e9;

// Power usage effectiveness of a data center: 1.2 at Jean Zay, where BLOOM was trained (Luccioni et
// al. 2022, arXiv 2211.02001).
inline constexpr double kPue = 1.2;

}  // namespace stepcast::forecast
