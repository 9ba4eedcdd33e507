#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
TP=${TP:-2}; PP=2
DP=$((16 / (TP * PP)))
if [ "$MODE" = big ]; then
  MBS=2
else
  MBS=1
fi
cat > ds.json <<EOF
{"zero_optimization": {"stage": 1, "reduce_bucket_size": 5e8}, "fp16": {"enabled": "auto"}}
EOF
ARGS=(
  --num-layers 32 --hidden-size 4096   # the model
  --num-attention-heads 32 --seq-length 4096
  --vocab-size 32000 --max-position-embeddings 4096
)
EXTRA="--num-experts 8 --moe-layer-freq '([0]*1+[1]*31)' --swiglu"
torchrun --nproc_per_node 8 --nnodes "$NNODES" pretrain_gpt.py "${ARGS[@]}" $EXTRA \
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size ${PP} \
  --micro-batch-size $MBS --global-batch-size $((MBS * DP * 8)) --bf16 2>&1 | tee log
