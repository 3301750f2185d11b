"""The rank-sum test within blocks: nodes that each hold cells of both volumes."""
