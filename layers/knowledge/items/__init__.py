"""The Knowledge Layer: governed items in compartments, with a provenance that the database itself protects.

What others build on (everything else is this package's own):

    session.Session(identity, agent_class, scope)  who acts, and which compartments it sees (None: all)
    session.AgentClass                             owner, chief, sweeper, fleet, external
    model.ItemDraft, ItemDraft.parse(fields)       the strict envelope that is stored
    model.Item                                     an item as it is; ``text()`` is what is searched and embedded
    model.ItemVersion, Link, LinkDraft             and ItemType, Tier, GateState, Decision, ITEM_TYPES, TIERS
    transactions.ItemTransactions(database)        .read(session, work) .write(session, work), as Role.APP or STEWARD
    fragments.COLUMNS, LINKS, as_item(row)         SELECT {columns}, {links} AS links FROM knowledge_layer.items AS item
    store.ItemStore(transactions)                  .store .get .look .link .promote .working .versions
    fragments.find_item(transaction, id, session)  an item without an access; raises fragments.not_found()
    gate.Gate(transactions)                        .candidates .decide
    deletion.Deletion(transactions, database)      .erase .flags .keep .tombstones .scrub
    provenance.Provenance(transactions)            .events .verify
    compartments.Compartments(transactions)        .list .add
    grants.Grants(transactions)                    .grant .revoke .list
    layer.KnowledgeLayer.on(database)              all of it, as ``wiring.items()`` has it

Tables are in the schema ``knowledge_layer`` (migration 0010). Vectors: ``item_embeddings`` (item_id, chunk, model,
version, item_version, embedding); words: ``items.search_text``. A search reads both through ``ItemTransactions.read``
and writes no access.
"""
