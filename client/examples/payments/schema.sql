-- The ledger of the payments example, and the card network that it asks. In
-- life the second belongs to somebody else, in another place: nothing here ever
-- writes both in one transaction.
CREATE SCHEMA payments;

CREATE TABLE payments.charge (
  charge_id uuid NOT NULL DEFAULT gen_random_uuid(),
  client_id text NOT NULL,
  -- For people who look: it is dedupe that keeps a key to one charge.
  idempotency_key text NOT NULL,
  -- What is charged for.
  order_ref text,
  amount bigint NOT NULL,
  currency text NOT NULL,
  card_last4 text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT charge_pkey PRIMARY KEY (charge_id),
  -- The last line of defence: one order asked for under two keys.
  CONSTRAINT charge_order_ref_key UNIQUE (client_id, order_ref),
  CONSTRAINT charge_amount_positive CHECK (amount > 0)
);

-- The card network's own memory: it takes an idempotency key as well.
CREATE TABLE payments.card_authorization (
  downstream_key text NOT NULL,
  approved boolean NOT NULL,
  amount bigint NOT NULL,
  currency text NOT NULL,
  card_last4 text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT card_authorization_pkey PRIMARY KEY (downstream_key)
);

-- Every request that reached it, repetitions included.
CREATE TABLE payments.card_request (
  card_request_id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  downstream_key text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT card_request_pkey PRIMARY KEY (card_request_id)
);
