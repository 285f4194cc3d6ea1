"""The paper's experiments: a module for each table and figure. ``madbayes reproduce`` runs them.

==================== =================================================================================
tabletop             the pictures of four objects on a table, all parts below
tabletop_errors      squared errors for each number of features, and the penalties at which five are best
tabletop_times       the table of running times, with the Gibbs sampler
tabletop_gibbs       the histogram of the numbers of features that the Gibbs sampler ends with
tabletop_figure      example pictures, their codes, and the features as pictures
tabletop_clusters    what clustering makes of the same pictures
faces                features and clusters of aligned faces
dice                 dice and Cambridge bars, whose features are known
tiny_optimum         how often restarts of the paper's algorithms find the optimum of tiny tables
==================== =================================================================================

``parts`` writes results and takes them up again, ``page`` makes an HTML page of them, ``figures`` draws, ``scenes``
generates pictures that stand in for those that cannot be shipped.
"""
