"""Optimisation problems on arrays, one a module. They know nothing of privacy, files or named hierarchies.

Validated functions and their kernels are in separate files where they are long (`simplex` and `simplex_kernels`, …).
`papers` is what is kept to compare with the papers. Third-party solvers are imported there only.

How a tree is given. One argument name stands for one encoding:

`parent`
    `parent[i]` is i's parent, −1 for the root; the nodes are in any order. What callers of `tree.project` and of most
    of `papers` have.
`first_child`
    Node i has the children `first_child[i]` … `first_child[i + 1] − 1`: siblings side by side, parents before children.
    A family is a slice, and one loop goes up or down the tree. For all nodes of a tree in `tree_shape` and its solvers,
    and in `sparse_support` and `sparse_posterior`; for each level, with the nodes of each level numbered from 0, in
    `joint_families`, `tree_variance` and `papers.mean_consistency`; for two levels in `matching` and
    `papers.transport`.
`first_leaf`
    For each level, node i has the leaves `first_leaf[i]` … `first_leaf[i + 1] − 1`. In `margins`, `rounding` and
    `chain_regression`, which need the sum of the leaves below each node, and where levels may be left out.
`first` and `children`
    Preorder: node i has the children `children[first[i]:first[i + 1]]`, and a subtree is a range of nodes. In
    `papers.cost_table`, where the tables of one subtree at a time are in memory, and in the programs of `papers`.

`offsets` is no tree: it cuts an array into consecutive pieces, such as the runs of nodes, or families with known sums
(`simplex`, `thresholds`, `remainders`, `isotonic`).

Conversions: `tree_shape.check_problem` from `parent` to `first_child`; `papers.preorder.check_tree` from `parent` to
preorder; `nested_levels.check_levels` from `first_leaf` to the parents of inner nodes and of leaves.
"""
