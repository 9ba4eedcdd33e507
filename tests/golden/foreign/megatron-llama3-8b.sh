#!/bin/bash
# After swiss-ai/Megatron-LM submit-llama3-8b.sh at 81d44dbe25c2.

#SBATCH --nodes=16
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4

MBS=1
GBS=128
SEQ_LEN=8192
MOCK_DATA=false
LOG_NCCL=false
MEGATRON_LM_DIR=/scratch/$USER/Megatron-LM
DATASETS="/store/fineweb"

export CUDA_DEVICE_MAX_CONNECTIONS=1
export OMP_NUM_THREADS=$((SLURM_CPUS_PER_TASK/SLURM_GPUS_PER_NODE))
MASTER_ADDR=$(hostname)

TRANSFORMER_ENGINE_ARGS=(
	--transformer-impl transformer_engine
	--use-precision-aware-optimizer
	--main-grads-dtype bf16
)

NETWORK_SIZE_ARGS=(
	--num-layers 32
	--hidden-size 4096
	--ffn-hidden-size 14336
	--num-attention-heads 32
	--group-query-attention
	--num-query-groups 8
	--max-position-embeddings $SEQ_LEN
	--position-embedding-type rope
	--rotary-base 500000
	--use-rope-scaling
	--rope-scaling-factor 8
	--make-vocab-size-divisible-by 128
	--normalization RMSNorm
	--swiglu
	--untie-embeddings-and-output-weights
)

TRAINING_ARGS=(
	--micro-batch-size $MBS
	--global-batch-size $GBS
	--cross-entropy-loss-fusion
	--disable-bias-linear
	--optimizer adam
	--attention-dropout 0.0
	--hidden-dropout 0.0
	--clip-grad 1.0
	--lr 0.00022
	--bf16
	--manual-gc
)

DISTRIBUTED_ARGS=(
	--tensor-model-parallel-size 1
	--pipeline-model-parallel-size 1
	--use-distributed-optimizer
	--overlap-grad-reduce
	--overlap-param-gather
)

DATA_ARGS=(
	--split 100,0,0
	--seq-length $SEQ_LEN
	--num-workers 1
	--tokenizer-type HuggingFaceTokenizer
	--tokenizer-model a-site/its-tokenizer
)

if [ "$MOCK_DATA" = true ]; then
  DATA_ARGS="${DATA_ARGS[@]} --mock-data"
else
  DATA_ARGS="${DATA_ARGS[@]} --data-path $(python3 $MEGATRON_LM_DIR/scripts/data.py -p $DATASETS)"
fi

TORCHRUN_ARGS=(
	--nproc-per-node $SLURM_GPUS_PER_NODE
	--nnodes $SLURM_NNODES
	--rdzv_endpoint $MASTER_ADDR:25678
)

TRAINING_CMD="torchrun ${TORCHRUN_ARGS[@]} $MEGATRON_LM_DIR/pretrain_gpt.py \
    ${TRANSFORMER_ENGINE_ARGS[@]} \
    ${NETWORK_SIZE_ARGS[@]} \
    ${TRAINING_ARGS[@]} \
    ${DISTRIBUTED_ARGS[@]} \
    $DATA_ARGS"

if [ -n "$WANDB_API_KEY" ]; then
  TRAINING_CMD="$TRAINING_CMD --wandb-project a-project"
fi

srun -lu --cpus-per-task $SLURM_CPUS_PER_TASK bash -c "numactl --membind=0-3 $TRAINING_CMD"
