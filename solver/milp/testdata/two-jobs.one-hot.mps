* elastalloc, formulation one-hot
* Names end in job, step and nodes; jobs and steps count from 1.
* The objective is minimized: minus the training progress, divided by 0.001
NAME elastalloc
ROWS
* (obj) max sum_i sum_t w_i s_i^t / d_i
 N progress
* (< total nodes) sum_i sum_k k x_k <= N
 L pool_1
 L pool_2
* one size per job and step, for (delta -), (delta +), (exactly hold): sum_k x_k = 1
 E one_1_1
 E one_1_2
 E one_2_1
 E one_2_2
* (training progress 1) s^1 <= p sum_k speed(k) x_k, after resize_delay
 L first_1_1
 L first_2_1
* (training progress 2) s^t <= s^(t-1) + p sum_k speed(k) x_k
 L later_1_2
 L later_2_2
COLUMNS
 integers 'MARKER' 'INTORG'
 x_1_1_1 pool_1 1
 x_1_1_1 one_1_1 1
 x_1_1_1 first_1_1 -1
 x_1_1_2 pool_1 2
 x_1_1_2 one_1_1 1
 x_1_1_2 first_1_1 -1.6
 x_1_2_1 pool_2 1
 x_1_2_1 one_1_2 1
 x_1_2_1 later_1_2 -1
 x_1_2_2 pool_2 2
 x_1_2_2 one_1_2 1
 x_1_2_2 later_1_2 -1.6
 x_2_1_0 one_2_1 1
 x_2_1_1 pool_1 1
 x_2_1_1 one_2_1 1
 x_2_1_1 first_2_1 -0.9
 x_2_1_2 pool_1 2
 x_2_1_2 one_2_1 1
 x_2_1_2 first_2_1 -1.44
 x_2_1_4 pool_1 4
 x_2_1_4 one_2_1 1
 x_2_1_4 first_2_1 -2.3040000000000007
 x_2_2_0 one_2_2 1
 x_2_2_1 pool_2 1
 x_2_2_1 one_2_2 1
 x_2_2_1 later_2_2 -1
 x_2_2_2 pool_2 2
 x_2_2_2 one_2_2 1
 x_2_2_2 later_2_2 -1.6
 x_2_2_4 pool_2 4
 x_2_2_4 one_2_2 1
 x_2_2_4 later_2_2 -2.5600000000000005
 integers 'MARKER' 'INTEND'
 s_1_1 progress -1000
 s_1_1 first_1_1 1
 s_1_1 later_1_2 -1
 s_1_2 progress -1000
 s_1_2 later_1_2 1
 s_2_1 progress -83.33333333333333
 s_2_1 first_2_1 1
 s_2_1 later_2_2 -1
 s_2_2 progress -83.33333333333333
 s_2_2 later_2_2 1
RHS
 rhs pool_1 4
 rhs pool_2 4
 rhs one_1_1 1
 rhs one_1_2 1
 rhs one_2_1 1
 rhs one_2_2 1
BOUNDS
 BV bound x_1_1_1
 BV bound x_1_1_2
 BV bound x_1_2_1
 BV bound x_1_2_2
 BV bound x_2_1_0
 BV bound x_2_1_1
 BV bound x_2_1_2
 BV bound x_2_1_4
 BV bound x_2_2_0
 BV bound x_2_2_1
 BV bound x_2_2_2
 BV bound x_2_2_4
 LO bound s_1_1 0
 UP bound s_1_1 2
 LO bound s_1_2 0
 UP bound s_1_2 2
 LO bound s_2_1 0
 UP bound s_2_1 12
 LO bound s_2_2 0
 UP bound s_2_2 12
ENDATA
