#!/bin/bash
# Cases, loops and functions of a script: a case of a known word is followed, the others are asked for.
MODEL=${MODEL:-8b}
case "$MODEL" in
  8b | 8B)
    LAYERS=32
    HIDDEN=4096
    ;;
  70b) LAYERS=80; HIDDEN=8192 ;;
  *) echo "no such model"; exit 1 ;;
esac

for TP in 1 2 4; do
  torchrun --nproc_per_node 8 pretrain_gpt.py \
    --num-layers $LAYERS --hidden-size $HIDDEN --num-attention-heads 32 --ffn-hidden-size 14336 --swiglu \
    --group-query-attention --num-query-groups 8 --position-embedding-type rope --normalization RMSNorm \
    --untie-embeddings-and-output-weights --disable-bias-linear --vocab-size 128256 \
    --hidden-dropout 0 --attention-dropout 0 \
    --seq-length 8192 --max-position-embeddings 8192 --micro-batch-size 1 --global-batch-size 64 \
    --tensor-model-parallel-size $TP --sequence-parallel --use-distributed-optimizer --bf16
done
