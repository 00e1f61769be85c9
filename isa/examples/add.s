// The sum of two arrays of one tile each:
//
//     tpusim asm add.s -o add.h5
//     tpusim run add.h5 --cores 1 --values on --inputs in.npz --outputs out.npz
//
// in.npz holds arg_000 (a) and arg_001 (b), out.npz out_000 (sum); without --inputs they are random.

parameter 0 a f32[8,128]{1,0:T(8,128)} at 0
parameter 1 b f32[8,128]{1,0:T(8,128)} at 4
output 0 sum f32[8,128]{1,0:T(8,128)} at 8

kernel add
  { dma.hbm_to_vmem 0, 4, 0, 1 }           // 4 granules of 1 KiB to the 8 rows of 512 bytes from row 0 on; raises flag 1 by 4
  { dma.hbm_to_vmem 4, 4, 8, 1 }
  { dma.done.wait 1, 8 }                   // until the flag is 8: all is there
  { vsyncadd 1, -8 }                       // a flag counts; the next step finds it as this one did
  { %v1 = vld [vmem:$0x0] }
  { %v2 = vld [vmem:$0x8] }
  { %v3 = vadd.f32 %v1, %v2 }
  { vst [vmem:$0x10] %v3 }
  { dma.vmem_to_hbm 16, 4, 8, 1 }
  { dma.done.wait 1, 4 }
  { vsyncadd 1, -4 }
